package webhook_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/webhook"
)

// A request is what a receiver got.
type request struct {
	method, path, proto string
	header              http.Header
	body                []byte
	length              int64
}

// recorded returns a handler that accepts requests and records them.
func recorded(requests chan<- request) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- request{r.Method, r.URL.RequestURI(), r.Proto, r.Header, body, r.ContentLength}
		w.WriteHeader(http.StatusNoContent)
	}
}

func TestRequestHasTheDocumentedForm(t *testing.T) {
	t.Parallel()
	n, requests := newInternet(t), make(chan request, 1)
	m, _ := n.receive(recorded(requests))
	at := time.Date(2026, 11, 22, 10, 0, 0, 999_999_999, time.UTC)
	sender := n.sender(webhook.Options{Clock: func() time.Time { return at }, Version: "1.4.0"}, 0, m)
	testkit.Must(t, sender.Send(t.Context(), m))
	r := <-requests
	if r.method != http.MethodPost || r.path != "/"+secretPath+"?key="+secretQuery || r.proto != "HTTP/2.0" || r.length != int64(len(r.body)) {
		t.Errorf("got %s %s %s with the length %d", r.method, r.path, r.proto, r.length)
	}
	if r.header.Get("webhook-signature") == "" {
		t.Error("it has no signature")
	}
	r.header.Del("webhook-signature")
	want := http.Header{
		"Content-Length": {strconv.Itoa(len(r.body))}, "Content-Type": {"application/json"}, "User-Agent": {"opsgate-webhooks/1.4.0"},
		"Webhook-Id": {m.ID}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)},
	}
	for name, values := range r.header {
		if strings.Join(values, ",") != want.Get(name) || len(values) != 1 {
			t.Errorf("header %s: %q, want %q", name, values, want.Get(name))
		}
		want.Del(name)
	}
	if len(want) > 0 {
		t.Errorf("it lacks the headers %v", want)
	}
}

// The library of Standard Webhooks accepts each secret during a rotation, and refuses everything that is not as it was sent.
func TestLibraryVerifiesSignatures(t *testing.T) {
	t.Parallel()
	n, requests := newInternet(t), make(chan request, 1)
	m, _ := n.receive(recorded(requests))
	current, previous, other := bytes.Repeat([]byte("\xfb\xff"), 16), bytes.Repeat([]byte("p"), 32), webhook.NewSecret()
	m.Subscriber.Secrets = [][]byte{current, previous}
	if _, err := n.send(m, 0); err != nil {
		t.Fatal(err)
	}
	sent := <-requests
	verify := func(secret []byte, change func(r *request)) error {
		r := request{header: sent.header.Clone(), body: bytes.Clone(sent.body)}
		change(&r)
		return must(standardwebhooks.NewWebhook(webhook.FormatSecret(secret)))(t).Verify(r.body, r.header)
	}
	for _, secret := range [][]byte{current, previous} {
		if err := verify(secret, func(*request) {}); err != nil {
			t.Errorf("secret %q: %v", secret, err)
		}
	}
	timestamp := must(strconv.ParseInt(sent.header.Get("webhook-timestamp"), 10, 64))(t)
	for name, change := range map[string]func(*request){
		"body":              func(r *request) { r.body[len(r.body)/2] ^= 1 },
		"longer body":       func(r *request) { r.body = append(r.body, ' ') },
		"id":                func(r *request) { r.header.Set("webhook-id", "019ab0de-4b31-7c22-9d6f-5f1f4f3f2a11") },
		"timestamp":         func(r *request) { r.header.Set("webhook-timestamp", strconv.FormatInt(timestamp+1, 10)) },
		"without signature": func(r *request) { r.header.Set("webhook-signature", "v1,") },
	} {
		for _, secret := range [][]byte{current, previous} {
			if verify(secret, change) == nil {
				t.Errorf("%s: verified with %q", name, secret)
			}
		}
	}
	if verify(other, func(*request) {}) == nil {
		t.Error("verified with a secret that the subscriber does not have")
	}
	m.Subscriber.Secrets = nil
	if err := n.sender(webhook.Options{}, 0, m).Send(t.Context(), m); err == nil || len(requests) > 0 {
		t.Errorf("without a secret: got %v and %d requests", err, len(requests))
	}
}

func TestOutcomeOfStatus(t *testing.T) {
	t.Parallel()
	n := newInternet(t)
	m, _ := n.receive(func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Query().Get("status"))
		w.Header().Set("Location", "/")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(status)
	})
	for status := 200; status <= 599; status++ {
		m := m
		m.Subscriber.Address += "&status=" + strconv.Itoa(status)
		got, err := n.send(m, 0)
		want, gone := "HTTP "+strconv.Itoa(status), status == http.StatusGone
		switch {
		case status < 300:
			want = ""
		case status < 400:
			want += ": redirects are not followed"
		case gone:
			want = "HTTP 410"
		}
		if got != want || delivery.KindOf(err) == delivery.Permanent || (delivery.KindOf(err) == delivery.Gone) != gone {
			t.Errorf("status %d: got %v, want %q", status, err, want)
		}
	}
}

func withAddress(m delivery.Message, address string) delivery.Message {
	m.Subscriber.Address = address
	return m
}

// No connection remains after a message, so that any number of receivers occupies none.
func TestConnectionsAreClosedAfterEachMessage(t *testing.T) {
	t.Parallel()
	const hosts = 50
	n := newInternet(t)
	for _, protocols := range [][]string{nil, {"http/1.1"}} { // nil is HTTP/2
		config := n.tlsConfigOf("*.example", -time.Hour, time.Hour)
		config.NextProtos = protocols
		opened, closed := make(chan struct{}, hosts), make(chan struct{}, hosts)
		n.states = connectionStates(opened, closed)
		m, _ := n.receiveWith(config, func(http.ResponseWriter, *http.Request) {})
		sender := n.sender(webhook.Options{}, 0, m)
		for i := range hosts {
			name := fmt.Sprintf("hooks-%d.example", i)
			n.resolve(name, []string{receiverAddress})
			testkit.Must(t, sender.Send(t.Context(), withAddress(m, strings.Replace(m.Subscriber.Address, host, name, 1))))
		}
		for range hosts {
			<-opened
			select {
			case <-closed:
			case <-time.After(10 * time.Second):
				t.Fatalf("%v: connections stay open", protocols)
			}
		}
	}
}

// connectionStates returns a hook that reports connections that begin and end.
func connectionStates(opened, closed chan<- struct{}) func(net.Conn, http.ConnState) {
	return func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened <- struct{}{}
		case http.StateClosed:
			closed <- struct{}{}
		}
	}
}
