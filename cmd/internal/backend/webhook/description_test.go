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

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/webhook"
	"opsgate/gateway/openapi"
)

type object = map[string]any

// readDescription returns the OpenAPI document of the public API, whose webhooks this package sends.
func readDescription(t *testing.T) object {
	t.Helper()
	document, _ := must(jsonschema.UnmarshalJSON(bytes.NewReader(openapi.JSON())))(t).(object)
	return document
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

// closedDescription returns the document with additional properties forbidden in all schemas.
func closedDescription(t *testing.T) object {
	t.Helper()
	document := readDescription(t)
	walk(document["components"].(object)["schemas"], func(o object) {
		if _, ok := o["properties"].(object); ok && o["type"] == "object" {
			o["additionalProperties"] = false
		}
	})
	return document
}

// compileDescription returns a function that returns a schema of the document.
func compileDescription(t *testing.T, document object) func(reference string) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	testkit.Must(t, compiler.AddResource("openapi.json", document))
	return func(reference string) *jsonschema.Schema {
		t.Helper()
		return must(compiler.Compile("openapi.json" + reference))(t)
	}
}

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

// What the sender sends has the method, the headers and the body of the OpenAPI document, whose examples are such bodies.
func TestRequestsFollowTheDescription(t *testing.T) {
	t.Parallel()
	document := readDescription(t)
	webhooks, _ := document["webhooks"].(object)
	messages, schema := describedMessages(), compileDescription(t, closedDescription(t))
	if described, sent := slices.Sorted(maps.Keys(webhooks)), slices.Sorted(maps.Keys(messages)); !slices.Equal(described, sent) {
		t.Fatalf("the document describes %v, and the events are %v", described, sent)
	}
	n, requests := newInternet(t), make(chan request, 1)
	to := n.receive(recorded(requests)).Subscriber
	for event, m := range messages {
		m.Subscriber = to
		m.Subscriber.Secrets = append(m.Subscriber.Secrets, webhook.NewSecret())
		if _, err := n.send(m, 0); err != nil {
			t.Fatal(err)
		}
		r := <-requests
		operation, _ := webhooks[event].(object)[strings.ToLower(r.method)].(object)
		if operation == nil {
			t.Fatalf("%s: %s is not described", event, r.method)
		}
		body := must(jsonschema.UnmarshalJSON(bytes.NewReader(r.body)))(t)
		media := operation["requestBody"].(object)["content"].(object)[r.header.Get("content-type")].(object)
		if err := schema(media["schema"].(object)["$ref"].(string)).Validate(body); err != nil {
			t.Errorf("%s: %v\n%s", event, err, r.body)
		}
		for name, example := range media["examples"].(object) {
			if diff := cmp.Diff(example.(object)["value"], body); diff != "" {
				t.Errorf("%s: the example %s differs from what is sent (+): %s", event, name, diff)
			}
		}
		checkHeaders(t, r.header, operation["parameters"].([]any), document, schema)
	}
}

// checkHeaders checks that the request has the described headers with valid values, and besides these only those of its body and its sender.
func checkHeaders(t *testing.T, sent http.Header, parameters []any, document object, schema func(string) *jsonschema.Schema) {
	t.Helper()
	rest := sent.Clone()
	for _, name := range []string{"Content-Type", "Content-Length", "User-Agent"} {
		rest.Del(name)
	}
	for _, p := range parameters {
		reference := p.(object)["$ref"].(string)
		all := document["components"].(object)["parameters"].(object)
		parameter := all[strings.TrimPrefix(reference, "#/components/parameters/")].(object)
		name := parameter["name"].(string)
		if err := schema(reference + "/schema").Validate(sent.Get(name)); err != nil || parameter["in"] != "header" {
			t.Errorf("the header %s is %q: %v", name, sent.Get(name), err)
		}
		if err := schema(reference + "/schema").Validate(parameter["example"]); err != nil {
			t.Errorf("the example of the header %s: %v", name, err)
		}
		rest.Del(name)
	}
	if len(rest) > 0 {
		t.Errorf("headers that the document does not describe: %v", rest)
	}
}
