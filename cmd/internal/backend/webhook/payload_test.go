package webhook_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/webhook"
)

// walk calls a function with each object of a JSON value, the inner ones first.
func walk(value any, call func(map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			walk(v, call)
		}
		call(value)
	case []any:
		for _, v := range value {
			walk(v, call)
		}
	}
}

// The demo may send to plain HTTP on loopback, through a dialer of its own.
func TestDialerOfTheCallerReplacesTheGuard(t *testing.T) {
	t.Parallel()
	n, requests := newInternet(t), make(chan request, 1)
	listener := n.listen("127.0.0.1")
	server := &http.Server{Handler: recorded(requests)}
	defer func() { _ = server.Close() }()
	go func() { _ = server.Serve(listener) }()
	dialed := make(chan string, 1)
	sender := webhook.New(webhook.Options{AllowHTTP: true, DialContext: dialer(listener.Addr().String(), dialed)})
	m := withAddress(exampleMessage(), "http://anything.example:8080/hook")
	testkit.Must(t, sender.Send(t.Context(), m))
	if r := <-requests; r.path != "/hook" {
		t.Errorf("got %s", r.path)
	}
	if address := <-dialed; address != "anything.example:8080" {
		t.Errorf("dialed %s", address)
	}
	refusal := errors.New("the demo has no such host")
	refusing := webhook.New(webhook.Options{AllowHTTP: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, refusal }})
	if err := refusing.Send(t.Context(), m); !errors.Is(err, refusal) || err.Error() != refusal.Error() {
		t.Errorf("got %v", err)
	}
	guarded := webhook.New(webhook.Options{AllowHTTP: true})
	want := "address " + listener.Addr().String() + " is not allowed"
	if err := guarded.Send(t.Context(), withAddress(m, "http://"+listener.Addr().String()+"/")); err == nil || err.Error() != want {
		t.Errorf("without a dialer: got %v", err)
	}
}
