package webhook_test

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/gateway/openapi"
	"opsgate/internal/testkit"
)

type object = map[string]any

// describedMessages returns the messages of the examples in the OpenAPI document, by event.
func describedMessages() map[string]delivery.Message {
	started := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	m := exampleMessage()
	m.ID, m.Event, m.CreatedAt = "0198c5ba-2d80-7a33-b0d4-6c1e9f2a7b58", delivery.IncidentCreated, started
	m.Page.ID = "577dd95c-7c45-5a86-ac87-768cf9d06b11"
	m.Incident.ID, m.Incident.StartedAt = "76181761-093f-52df-8402-bd54ca0c498b", started
	m.Update = delivery.Update{
		ID: "0198c5ba-2d71-7f08-8c4e-95b3e06a1fd2", Status: "investigating", Message: "About 5 % of requests fail.", CreatedAt: started,
	}
	posted := m
	posted.Event, posted.CreatedAt = delivery.UpdatePosted, started.Add(30*time.Minute)
	posted.Update = delivery.Update{
		ID: "0198c5c1-8e40-7b15-9a67-3d0f52c8e4b9", Status: "resolved", Message: "A disk was full. It is larger now.",
		CreatedAt: posted.CreatedAt,
	}
	return map[string]delivery.Message{m.Event: m, posted.Event: posted}
}

// What the sender sends has the method, the headers and the body of the OpenAPI document, whose
// examples are such bodies.
func TestRequestsFollowTheDescription(t *testing.T) {
	t.Parallel()
	document := must(jsonschema.UnmarshalJSON(bytes.NewReader(openapi.JSON())))(t).(object)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	testkit.Must(t, compiler.AddResource("openapi.json", document))
	events, messages := document["webhooks"].(object), describedMessages()
	if len(events) != len(messages) {
		t.Fatalf("the document describes %d events, not %d", len(events), len(messages))
	}
	n, requests := newInternet(t), make(chan request, 1)
	to := n.receive(recorded(requests)).Subscriber
	for event, m := range messages {
		m.Subscriber = to
		testkit.Must(t, n.sender(0, m).Send(t.Context(), m))
		r := <-requests
		operation := events[event].(object)[strings.ToLower(r.method)].(object)
		body := must(jsonschema.UnmarshalJSON(bytes.NewReader(r.body)))(t)
		media := operation["requestBody"].(object)["content"].(object)[r.header.Get("content-type")].(object)
		schema := must(compiler.Compile("openapi.json" + media["schema"].(object)["$ref"].(string)))(t)
		if err := schema.Validate(body); err != nil {
			t.Errorf("%s: %v\n%s", event, err, r.body)
		}
		for name, example := range media["examples"].(object) {
			if diff := cmp.Diff(example.(object)["value"], body); diff != "" {
				t.Errorf("%s: the example %s differs from what is sent (+): %s", event, name, diff)
			}
		}
		checkHeaders(t, r.header, operation["parameters"].([]any))
	}
}

// checkHeaders checks that the request has the described headers, and besides these only those of
// its body and its sender.
func checkHeaders(t *testing.T, sent http.Header, parameters []any) {
	t.Helper()
	want := []string{"Content-Length", "Content-Type", "User-Agent"}
	for _, p := range parameters { // #/components/parameters/WebhookId
		want = append(want, strings.ReplaceAll(strings.TrimPrefix(p.(object)["$ref"].(string), "#/components/parameters/"), "Webhook", "Webhook-"))
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(sent)); !slices.Equal(got, want) {
		t.Errorf("the headers are %q, want %q", got, want)
	}
}
