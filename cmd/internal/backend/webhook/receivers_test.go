package webhook_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/webhook"
	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
	"opsgate/internal/testkit/dnstest"
)

func TestMain(m *testing.M) {
	testkit.SetDeadProxies() // the sender does not use them
	testkit.VerifyTestMain(m)
}

// receiverAddress is the only address that tests allow. It stands for a public one; 127.0.0.1
// remains forbidden.
const receiverAddress = "127.0.0.2"

const host = "hooks.example"

// An internet has names and a certificate authority.
type internet struct {
	testing.TB

	authority *certstest.Authority
	resolver  *net.Resolver

	mu      sync.Mutex
	answers map[string][]string // addresses by name; those of "" are of all other names
}

func newInternet(t testing.TB) *internet {
	t.Helper()
	n := &internet{TB: t, authority: certstest.NewAuthority(t, "root"), answers: map[string][]string{host: {receiverAddress}}}
	names := dnstest.Start(t, n.lookup)
	n.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", names.Address)
	}}
	return n
}

func must[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		testkit.Must(t, err)
		return v
	}
}

// tlsConfig returns the configuration of a receiver with a valid certificate.
func (n *internet) tlsConfig() *tls.Config { return n.tlsConfigOf(host, -time.Hour, time.Hour) }

// tlsConfigOf returns the configuration of a receiver with a certificate for the name that is valid
// between the two times from now.
func (n *internet) tlsConfigOf(name string, from, until time.Duration) *tls.Config {
	n.Helper()
	now := time.Now()
	return &tls.Config{Certificates: n.authority.Valid(n, 2, now.Add(from), now.Add(until), name).TLS(n)}
}

// resolve sets the addresses of a name.
func (n *internet) resolve(name string, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers[name] = addresses
}

// lookup returns the addresses of a name.
func (n *internet) lookup(name string, _ dnsmessage.Type) ([]string, dnsmessage.RCode) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, known := range []string{strings.TrimSuffix(name, "."), ""} {
		if addresses, ok := n.answers[known]; ok {
			return addresses, dnsmessage.RCodeSuccess
		}
	}
	return nil, dnsmessage.RCodeNameError
}

// listen returns a listener on a port of the address that is free on 127.0.0.1 too.
func (n *internet) listen(address string) net.Listener {
	n.Helper()
	listener := must(net.Listen("tcp", fmt.Sprint(address, ":", testkit.FreePort(n))))(n)
	n.Cleanup(func() { _ = listener.Close() })
	return listener
}

// receive starts a receiver, which speaks HTTP/2, and returns a message for it.
func (n *internet) receive(handle http.HandlerFunc) delivery.Message {
	n.Helper()
	server := httptest.NewUnstartedServer(handle)
	_ = server.Listener.Close()
	server.Listener, server.TLS, server.EnableHTTP2 = n.listen(receiverAddress), n.tlsConfig(), true
	server.StartTLS()
	n.Cleanup(server.Close)
	return messageTo(host, server.Listener)
}

// receiveRaw starts a receiver that answers each connection with a function, and returns a message
// for it. With a nil configuration it has no TLS.
func (n *internet) receiveRaw(config *tls.Config, answer func(net.Conn)) delivery.Message {
	n.Helper()
	listener := n.listen(receiverAddress)
	message := messageTo(host, listener)
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	var connections sync.WaitGroup
	n.Cleanup(func() { _ = listener.Close(); connections.Wait() })
	connections.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() {
				defer func() { _ = connection.Close() }()
				answer(connection)
			})
		}
	})
	return message
}

// readRequest reads the request of a connection.
func readRequest(c net.Conn) {
	buffer := make([]byte, 64<<10)
	for text := ""; !strings.HasSuffix(text, "}"); {
		size, err := c.Read(buffer)
		if err != nil {
			return
		}
		text += string(buffer[:size])
	}
}

// untilClosed returns once the sender has closed the connection.
func untilClosed(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// Parts of URLs that no error may repeat.
const (
	secretPath  = "secret-of-the-path"
	secretQuery = "secret-of-the-query"
)

func messageTo(name string, listener net.Listener) delivery.Message {
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return messageToPort(name, port)
}

func messageToPort(name, port string) delivery.Message {
	m := exampleMessage()
	m.Subscriber.Address = "https://" + name + ":" + port + "/" + secretPath + "?key=" + secretQuery
	return m
}

// sender returns a sender that reaches receiverAddress on any port that the messages have.
func (n *internet) sender(timeout time.Duration, messages ...delivery.Message) delivery.Sender {
	n.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(n.authority.Root)
	var ports []uint16
	for _, m := range messages {
		if u := must(url.Parse(m.Subscriber.Address))(n); u.Port() != "" {
			ports = append(ports, uint16(must(strconv.Atoi(u.Port()))(n)))
		}
	}
	return webhook.New(webhook.Options{}.InTest(receiverAddress, ports, n.resolver, roots, timeout))
}

// send sends the message once and returns the text of the error, which it checks for secrets.
func (n *internet) send(m delivery.Message, timeout time.Duration) (string, error) {
	n.Helper()
	err := n.sender(timeout, m).Send(n.Context(), m)
	if err == nil {
		return "", nil
	}
	for _, secret := range []string{secretPath, secretQuery, "whsec_", webhook.FormatSecret(m.Subscriber.Secrets[0])[6:]} {
		if strings.Contains(err.Error(), secret) {
			n.Errorf("the error has the secret %q: %v", secret, err)
		}
	}
	return err.Error(), err
}

func exampleMessage() delivery.Message {
	at := time.Date(2026, 11, 22, 9, 41, 7, 123_456_789, time.UTC)
	return delivery.Message{
		ID: "019ab0de-4b31-7c22-9d6f-5f1f4f3f2a10", Event: delivery.IncidentCreated, CreatedAt: at, Attempt: 1,
		Subscriber: delivery.Subscriber{
			ID: "019ab0de-0000-7c22-9d6f-5f1f4f3f2a11", Address: "https://hooks.example/",
			Secrets: [][]byte{[]byte("0123456789abcdef0123456789abcdef")},
		},
		Page: delivery.Page{ID: "3f6c1d5e-8a52-4f0e-9d0c-7c5b1f2a9e34", Name: "Harbour status", Hostname: "status.harbour.example"},
		Incident: delivery.Incident{
			ID: "019ab0de-4b2f-7f0a-8e6b-2f9f5c1d7a55", Title: "API errors", Impact: "major", StartedAt: at,
			Components: []delivery.Component{{ID: "b7e1f6d2-3c4a-4f58-8b9d-0a1b2c3d4e5f", Name: "Public API"}},
		},
		Update: delivery.Update{
			ID: "019ab0de-4b30-7a11-b1c2-8d7e6f5a4b3c", Status: "investigating",
			Message: "About 5 % of requests fail.\nWe are looking into it.", CreatedAt: at,
		},
	}
}
