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
	"strings"
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
		{"hangs in the headers", func(c net.Conn) { write("HTTP/1.1 200 OK\r\nX-Part: " + secret)(c); untilClosed(c) }, timedOut},
		{hangsInBody, func(c net.Conn) { write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")(c); untilClosed(c) }, ""},
		{"hangs in the body of a failure", func(c net.Conn) { write("HTTP/1.1 500 X\r\nContent-Length: 9\r\n\r\nhalf")(c); untilClosed(c) }, "HTTP 500"},
		{"sends one byte at a time", drip("HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Slow: "+secret+"\r\n", 100)), timedOut},
		{"switches protocols and hangs", func(c net.Conn) {
			write("HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")(c)
			untilClosed(c)
		}, "HTTP 101"},
		{"sends interim responses without end", func(c net.Conn) {
			readRequest(c)
			repeat("HTTP/1.1 103 Early Hints\r\nLink: </" + secret + ">\r\n\r\n")(c)
		}, invalid},
		{"sends headers without end", func(c net.Conn) { write("HTTP/1.1 200 OK\r\n")(c); repeat("X-Long: " + secret + "\r\n")(c) }, invalid},
		{"sends a body without end", func(c net.Conn) { write("HTTP/1.1 200 OK\r\n\r\n")(c); repeat(secret)(c) }, ""},
		{"sends an interim response and closes", write("HTTP/1.1 100 Continue\r\n\r\n"), closed},
		{"closes before the status", readRequest, closed},
		{"closes in the headers", write("HTTP/1.1 200 OK\r\nX-Part: " + secret), closed},
		{"closes in the body", write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), ""},
		{"resets", func(c net.Conn) { readRequest(c); reset(c) }, "connection reset by peer"},
		{"does not speak HTTP", write(secret + "\r\n\r\n"), invalid},
		{"has a status that is no number", write("HTTP/1.1 " + secret + "\r\n\r\n"), invalid},
		{"has an invalid header", write("HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n"), invalid},
		{"has an invalid length", write("HTTP/1.1 200 OK\r\nContent-Length: " + secret + "\r\n\r\n"), invalid},
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

// drip sends a text slowly.
func drip(text string) func(net.Conn) {
	return func(c net.Conn) {
		readRequest(c)
		ticker := time.NewTicker(soon / 100)
		defer ticker.Stop()
		for i := range len(text) {
			<-ticker.C
			if _, err := c.Write([]byte{text[i]}); err != nil {
				return
			}
		}
	}
}

// repeat sends a text until the sender closes the connection.
func repeat(text string) func(net.Conn) {
	return func(c net.Conn) {
		block := bytes.Repeat([]byte(text), 1000)
		for {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	}
}

// reset closes the connection with a TCP reset.
func reset(c net.Conn) {
	raw := c
	if secured, ok := c.(*tls.Conn); ok {
		raw = secured.NetConn()
	}
	_ = raw.(*net.TCPConn).SetLinger(0)
	_ = raw.Close()
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
