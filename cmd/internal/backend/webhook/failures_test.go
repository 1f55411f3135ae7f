package webhook_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"testing"
	"time"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/webhook"
)

const (
	timedOut = "timeout: no answer in time"
	closed   = "the connection was closed without an answer"
	invalid  = "no valid HTTP answer"
	// soon is a timeout for receivers that never answer. The name must be found within half of it, also on a busy machine.
	soon = 2 * time.Second
	// patient is the timeout for a receiver that answers and then hangs. The handshake must end within half of it.
	patient     = 10 * time.Second
	hangsInBody = "hangs in the body"
	// ample is a timeout that no receiver needs.
	ample = 2 * time.Minute
)

// Each receiver misbehaves on the wire. What it sends repeats the URL, which no error may contain.
func TestMisbehavingReceivers(t *testing.T) {
	t.Parallel()
	const secret = secretPath + "?key=" + secretQuery
	write := func(parts ...string) func(net.Conn) {
		return func(c net.Conn) {
			readRequest(c)
			for _, part := range parts {
				_, _ = io.WriteString(c, part)
			}
		}
	}
	for _, c := range []struct {
		name   string
		answer func(net.Conn)
		want   string // empty: accepted
	}{
		{"hangs before the status", func(c net.Conn) { untilClosed(c) }, timedOut},
		{hangsInBody, func(c net.Conn) { write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")(c); untilClosed(c) }, ""},
		{"hangs in the body of a failure", func(c net.Conn) { write("HTTP/1.1 500 X\r\nContent-Length: 9\r\n\r\nhalf")(c); untilClosed(c) }, "HTTP 500"},
		{"closes before the status", readRequest, closed},
		{"does not speak HTTP", write(secret + "\r\n\r\n"), invalid},
		{"has an invalid header", write("HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n"), invalid},
		{"has no reason", write("HTTP/1.1 503\r\n\r\n"), "HTTP 503"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := newInternet(t)
			config := n.tlsConfig()
			config.NextProtos = []string{"http/1.1"}
			m := n.receiveRaw(config, c.answer)
			timeout, start := ample, time.Now()
			switch {
			case c.want == timedOut:
				timeout = soon
			case c.name == hangsInBody:
				timeout = patient
			}
			if got, err := n.send(m, timeout); got != c.want {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if timeout == ample && time.Since(start) > ample/2 {
				t.Error("it waited for the timeout")
			}
		})
	}
}

func TestConnectionFailures(t *testing.T) {
	t.Parallel()
	n := newInternet(t)
	n.resolve("empty.example", nil)
	const unused = "1" // not a port that was free a moment ago: a parallel test may listen on it by now
	plain := func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 "+secretPath+"\r\n\r\n"); untilClosed(c) }
	for name, c := range map[string]struct {
		message delivery.Message
		timeout time.Duration
		want    string
	}{
		"nothing listens":        {messageToPort(host, unused), 0, "connection refused"},
		"unknown name":           {messageToPort("unknown.example", unused), 0, "DNS: the name does not exist"},
		"name without addresses": {messageToPort("empty.example", unused), 0, "DNS: the name does not exist"},
		"handshake hangs":        {n.receiveRaw(nil, untilClosed), soon, timedOut},
		"no TLS":                 {n.receiveRaw(nil, plain), 0, "TLS: the handshake failed"},
	} {
		if got, _ := n.send(c.message, c.timeout); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestCertificatesAreVerified(t *testing.T) {
	t.Parallel()
	n := newInternet(t)
	stranger := newInternet(t)
	old := n.tlsConfig()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	for name, c := range map[string]struct {
		config *tls.Config
		want   string
	}{
		"expired":        {n.tlsConfigOf(host, -2*time.Hour, -time.Hour), "TLS: the certificate has expired or is not valid yet"},
		"of the future":  {n.tlsConfigOf(host, time.Hour, 2*time.Hour), "TLS: the certificate has expired or is not valid yet"},
		"another name":   {n.tlsConfigOf(secretPath+".example", -time.Hour, time.Hour), "TLS: the certificate is for another name"},
		"another issuer": {stranger.tlsConfig(), "TLS: the certificate has no trusted issuer"},
		"TLS 1.1":        {old, "TLS: the handshake failed"},
	} {
		t.Run(name, func(t *testing.T) {
			m := n.receiveRaw(c.config, func(c net.Conn) { _ = c.(*tls.Conn).Handshake() })
			if got, err := n.send(m, 0); got != c.want {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	n := newInternet(t)
	second := make(chan request, 1)
	target, _ := n.receive(recorded(second))
	for _, location := range []string{"http://169.254.169.254/latest/meta-data/", target.Subscriber.Address} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			m, _ := n.receive(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, location, status) })
			sender := n.sender(webhook.Options{}, 0, m, target)
			want := fmt.Sprintf("HTTP %d: redirects are not followed", status)
			if err := sender.Send(t.Context(), m); err == nil || err.Error() != want {
				t.Errorf("%d to %s: got %v", status, location, err)
			}
		}
	}
	if len(second) > 0 {
		t.Error("the target of the redirect got a request")
	}
}

// The proxies of the environment are dead (TestMain).
func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	t.Parallel()
	n := newInternet(t)
	m, _ := n.receive(func(http.ResponseWriter, *http.Request) {})
	if got, err := n.send(m, 0); err != nil {
		t.Errorf("got %s", got)
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
