package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/webhook"
)

// drawMessage returns a message with any values that the backend stores.
func drawMessage(t *rapid.T) delivery.Message {
	id := func(name string) string {
		return rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`).Draw(t, name)
	}
	text := func(name string) string { return rapid.String().Draw(t, name) }
	at := func(name string) time.Time {
		zone := time.FixedZone("", rapid.IntRange(-12, 14).Draw(t, "zone")*3600)
		return time.Unix(rapid.Int64Range(0, 4e9).Draw(t, name), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).In(zone)
	}
	components := make([]delivery.Component, rapid.IntRange(0, 3).Draw(t, "components"))
	for i := range components {
		components[i] = delivery.Component{ID: id("component"), Name: text("component name")}
	}
	status := rapid.SampledFrom([]string{"investigating", "identified", "monitoring", "resolved"}).Draw(t, "status")
	return delivery.Message{
		ID:        id("message"),
		Event:     rapid.SampledFrom([]string{delivery.IncidentCreated, delivery.UpdatePosted}).Draw(t, "event"),
		CreatedAt: at("event time"),
		Page:      delivery.Page{ID: id("page"), Name: text("page name"), Hostname: text("hostname")},
		Incident: delivery.Incident{
			ID: id("incident"), Title: text("title"), Impact: rapid.SampledFrom([]string{"none", "minor", "major", "critical"}).Draw(t, "impact"),
			IsMaintenance: rapid.Bool().Draw(t, "maintenance"), StartedAt: at("start"), Components: components,
		},
		Update: delivery.Update{ID: id("update"), Status: status, Message: text("text"), CreatedAt: at("update time")},
	}
}

// Every payload is valid, has each documented field and no other, and keeps the values of its message.
func TestPayloadsFollowTheSchema(t *testing.T) {
	t.Parallel()
	valid := compileDescription(t, readDescription(t))(bodySchema)
	closed := compileDescription(t, closedDescription(t))(bodySchema)
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMessage(rt)
		text, err := json.Marshal(webhook.NewPayload(m))
		testkit.Must(rt, err)
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		testkit.Must(rt, err)
		for _, s := range []*jsonschema.Schema{valid, closed} {
			if err := s.Validate(value); err != nil {
				rt.Fatalf("%v\n%s", err, text)
			}
		}
		addUnknownFields(value)
		if err := valid.Validate(value); err != nil {
			rt.Fatalf("with unknown fields: %v", err)
		}
		var got webhook.Payload
		testkit.Must(rt, json.Unmarshal(text, &got))
		if got.Data.Incident.Title != m.Incident.Title || got.Data.Update.Message != m.Update.Message || got.Data.Incident.Status != m.Update.Status {
			rt.Fatalf("got %+v of %+v", got, m)
		}
	})
}

// addUnknownFields adds a field to each object.
func addUnknownFields(value any) {
	walk(value, func(object map[string]any) { object["later"] = map[string]any{"version": json.Number("2")} })
}

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
