package webhook_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/backend/delivery"
)

// soon is a timeout for receivers that never answer. The name must be found within half of it, also
// on a busy machine.
const soon = 4 * time.Second

// answering returns a receiver that answers the request of a connection, and then waits for its end
// or closes it.
func answering(text string, end func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		readRequest(c)
		_, _ = io.WriteString(c, text)
		end(c)
	}
}

// Each receiver misbehaves. What it sends repeats the URL, which no error may contain.
func TestCausesOfFailures(t *testing.T) {
	t.Parallel()
	n, stranger := newInternet(t), newInternet(t)
	n.resolve("empty.example")
	const (
		secret = secretPath + "?key=" + secretQuery
		unused = "1" // not a port that was free a moment ago: a parallel test may listen on it by now
		half   = "\r\nContent-Length: 9\r\n\r\nhalf"
	)
	old, one := n.tlsConfig(), n.tlsConfig()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	one.NextProtos = []string{"http/1.1"}
	closes := func(net.Conn) {}
	handshake := func(config *tls.Config) delivery.Message {
		return n.receiveRaw(config, func(c net.Conn) { _ = c.(*tls.Conn).Handshake() })
	}
	answer := func(text string, end func(net.Conn)) delivery.Message { return n.receiveRaw(one, answering(text, end)) }
	plain := func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 "+secret+"\r\n\r\n"); untilClosed(c) }
	for name, c := range map[string]struct {
		message delivery.Message
		want    string // empty: accepted
	}{
		"hangs before the status":       {n.receiveRaw(one, untilClosed), "timeout: no answer in time"},
		"hangs in the body":             {answer("HTTP/1.1 200 OK"+half, untilClosed), ""},
		"hangs in that of a failure":    {answer("HTTP/1.1 500 X"+half, untilClosed), "HTTP 500"},
		"closes before the status":      {answer("", closes), "the connection was closed without an answer"},
		"does not speak HTTP":           {answer(secret+"\r\n\r\n", closes), "no valid HTTP answer"},
		"has an invalid header":         {answer("HTTP/1.1 200 OK\r\n"+secret+"\r\n\r\n", closes), "no valid HTTP answer"},
		"has no reason":                 {answer("HTTP/1.1 503\r\n\r\n", closes), "HTTP 503"},
		"nothing listens":               {messageToPort(host, unused), "connection refused"},
		"unknown name":                  {messageToPort("unknown.example", unused), "DNS: the name does not exist"},
		"name without addresses":        {messageToPort("empty.example", unused), "DNS: the name does not exist"},
		"hangs in the handshake":        {n.receiveRaw(nil, untilClosed), "timeout: no answer in time"},
		"no TLS":                        {n.receiveRaw(nil, plain), "TLS: the handshake failed"},
		"TLS 1.1":                       {handshake(old), "TLS: the handshake failed"},
		"expired certificate":           {handshake(n.tlsConfigOf(host, -2*time.Hour, -time.Hour)), "TLS: the certificate has expired or is not valid yet"},
		"certificate of the future":     {handshake(n.tlsConfigOf(host, time.Hour, 2*time.Hour)), "TLS: the certificate has expired or is not valid yet"},
		"certificate of another name":   {handshake(n.tlsConfigOf(secretPath+".example", -time.Hour, time.Hour)), "TLS: the certificate is for another name"},
		"certificate of another issuer": {handshake(stranger.tlsConfig()), "TLS: the certificate has no trusted issuer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := time.Duration(0)
			if strings.HasPrefix(name, "hangs") {
				timeout = soon
			}
			if got, err := n.send(c.message, timeout); got != c.want {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// docs/integrate/notifications.md lists the causes that operators see.
func TestCausesAreDocumented(t *testing.T) {
	t.Parallel()
	page := must(os.ReadFile("../../../../docs/integrate/notifications.md"))(t)
	source := must(os.ReadFile("cause.go"))(t)
	causes := regexp.MustCompile(`errors\.New\("([^"]+)"\)`).FindAllSubmatch(source, -1)
	if len(causes) < 8 {
		t.Fatalf("cause.go has only %d causes", len(causes))
	}
	for _, cause := range append(causes, [][]byte{nil, []byte("address 10.0.0.1:443 is not allowed")}, [][]byte{nil, []byte("redirects are not followed")}) {
		if !bytes.Contains(page, []byte("`"+string(cause[1])+"`")) {
			t.Errorf("docs/integrate/notifications.md lacks %q", cause[1])
		}
	}
}
