package command_test

import (
	"strings"
	"testing"

	"opsgate/cmd/internal/test/devtest"
)

// An agent opens an incident on a status page, posts an update, and resolves it.
func TestAgentTakesAnIncidentFromOpenToResolved(t *testing.T) {
	a := startSystem(t, devtest.HighLimits).as("full").agent(t)
	var pages, components struct {
		Items, Components []struct{ ID string }
	}
	if a.call(t, "list_status_pages", nil, &pages) || len(pages.Items) == 0 {
		t.Fatalf("got %+v", pages)
	}
	page := pages.Items[0].ID
	if a.call(t, "get_status_page", map[string]any{"id": page}, &components) || len(components.Components) == 0 {
		t.Fatalf("got %+v", components)
	}
	newIncident := map[string]any{
		"title": "Checkout fails", "status": "investigating", "impact": "major", "message": "We are looking into it.",
		"statusPageId": page, "componentIds": []string{components.Components[0].ID}, "idempotencyKey": "agent-1",
	}
	type incident struct {
		ID, Status, StatusPageID string
		Updates                  []struct{ Status, Message string }
		Replayed                 bool
	}
	var opened, again, update, resolved, shown incident
	if a.call(t, "create_incident", newIncident, &opened) || opened.Status != "investigating" || opened.Replayed {
		t.Fatalf("opened %+v", opened)
	}
	if a.call(t, "create_incident", newIncident, &again) || again.ID != opened.ID || !again.Replayed {
		t.Errorf("the same key again: %+v", again)
	}
	newIncident["title"] = "Another"
	if f := a.fails(t, "create_incident", newIncident); f.Code != "validation_error" || f.Details["idempotencyKey"] == "" {
		t.Errorf("the same key for another incident: %+v", f)
	}
	progress := map[string]any{"id": opened.ID, "status": "identified", "message": "A faulty image.", "notifySubscribers": true}
	if a.call(t, "add_incident_update", progress, &update) || update.Status != "identified" {
		t.Errorf("posted %+v", update)
	}
	end := map[string]any{"id": opened.ID, "status": "resolved", "message": "Fixed.", "notifySubscribers": false}
	if a.call(t, "add_incident_update", end, &resolved) || resolved.Status != "resolved" {
		t.Errorf("posted %+v", resolved)
	}
	if a.call(t, "get_incident", map[string]any{"id": opened.ID}, &shown) || shown.Status != "resolved" || shown.StatusPageID != page ||
		len(shown.Updates) != 3 || shown.Updates[1].Message != "A faulty image." {
		t.Errorf("got %+v", shown)
	}
}

func TestAgentReadsPages(t *testing.T) {
	a := startSystem(t, devtest.HighLimits).as("read").agent(t)
	type page struct {
		Items         []struct{ ID string }
		NextCursor    string
		CursorIgnored bool
	}
	var first, restarted, servers, beyond page
	if a.call(t, "list_incidents", map[string]any{"limit": 2}, &first) || len(first.Items) != 2 || first.NextCursor == "" || first.CursorIgnored {
		t.Errorf("got %v", first)
	}
	if a.call(t, "list_incidents", map[string]any{"cursor": "unknown"}, &restarted) || !restarted.CursorIgnored {
		t.Errorf("with an unknown cursor: %v", restarted)
	}
	if a.call(t, "list_servers", nil, &servers) || len(servers.Items) < 25 {
		t.Fatalf("got %v", servers)
	}
	commands := map[string]any{"id": servers.Items[0].ID, "page": 1_000_000}
	if a.call(t, "list_server_commands", commands, &beyond) || len(beyond.Items) > 0 {
		t.Errorf("a page beyond the end: %v", beyond)
	}
}

// Failures name the argument and its bounds, whether opsctl or the API refuses it.
func TestAgentGetsTheBoundsOfArguments(t *testing.T) {
	const none = "01234567-89ab-7def-8123-456789abcdef"
	a := startSystem(t, devtest.HighLimits).as("full").agent(t)
	incident := func(name string, value any) map[string]any {
		in := map[string]any{"title": "a", "status": "resolved", "impact": "none", "message": "b"}
		in[name] = value
		return in
	}
	for _, c := range []struct {
		tool      string
		arguments map[string]any
		argument  string
		want      string
	}{
		{"list_incidents", map[string]any{"limit": 500}, "limit", "500 does not match: format int32, maximum 100, minimum 1, type integer"},
		{"list_incidents", map[string]any{"limit": 1.5}, "limit", "1.5 does not match: format int32"},
		{"list_server_commands", map[string]any{"id": none, "page": 0}, "page", "0 does not match: format int32, maximum 2147483647"},
		{"list_incidents", map[string]any{"limits": 5}, "limits", "is not an argument of this tool; its arguments: [cursor limit]"},
		{"me", map[string]any{"id": 5}, "id", "is not an argument of this tool; its arguments: []"},
		{"get_server", nil, "id", "is required: format uuid, pattern ^"},
		{"get_server", map[string]any{"id": "../me"}, "id", `"../me" does not match: format uuid`},
		{"get_server_metrics", map[string]any{"id": none, "range": "1y"}, "range", `"1y" does not match: enum [1h 24h 7d 30d]`},
		{"list_monitor_checks", map[string]any{"id": none, "since": "today"}, "since", `"today" does not match: format date-time`},
		{"list_monitor_checks", map[string]any{"id": none, "since": "2026-02-30T03:04:05Z"}, "since", "RFC 3339"},
		{"create_incident", incident("title", strings.Repeat("a", 256)), "title", `… does not match: maxLength 255, minLength 1, pattern \S, type string`},
		{"create_incident", incident("title", "\x07"), "title", "must not hold control characters"},
		{"create_incident", incident("statusPageId", 5), "statusPageId", "5 does not match: format uuid"},
		{"create_incident", incident("componentIds", "a"), "componentIds", `"a" does not match: each item: (format uuid, pattern ^`},
		{"create_incident", incident("componentIds", "a"), "componentIds", "type string), maxItems 100, type [array null]"},
		{"create_incident", incident("idempotencyKey", "a b"), "idempotencyKey", `"a b" does not match: maxLength 255, minLength 1, pattern ^[!-~]+$`},
		{"add_incident_update", map[string]any{"id": none, "notifySubscribers": "no"}, "notifySubscribers", `"no" does not match: type boolean`},
		{"add_incident_update", map[string]any{"id": none, "status": "resolved", "message": "b"}, "notifySubscribers", "is required: type boolean"},
	} {
		f := a.fails(t, c.tool, c.arguments)
		if !strings.Contains(f.Details[c.argument], c.want) || !strings.Contains(f.Action, "that details names") {
			t.Errorf("%s of %s: %+v, want %q", c.argument, c.tool, f, c.want)
		}
	}
	if f := a.fails(t, "get_server", map[string]any{"id": none}); f.Code != "not_found" || f.RequestID == "" || !strings.Contains(f.Action, "a valid ID") {
		t.Errorf("an unknown server: %+v", f)
	}
}

func TestAgentIsToldTheSecondsToWait(t *testing.T) {
	a := startSystem(t, oneAnHour).as("read").agent(t) // GET /v1/me used the only request
	if f := a.fails(t, "list_servers", nil); f.Code != "rate_limited" || f.RetryAfterSeconds < 600 || f.RetryAfterSeconds > 3610 || f.WaitedSeconds != 0 {
		t.Errorf("got %+v", f)
	}
	limits := startStub(t, failure(503, "unavailable"), failure(429, "rate_limited", "Retry-After", "1"), failure(429, "rate_limited", "Retry-After", "60"))
	f := limits.agent(t).fails(t, "me", nil)
	if f.RetryAfterSeconds != 60 || f.WaitedSeconds != 1 || !strings.Contains(f.Action, "after retryAfterSeconds") {
		t.Errorf("after a wait: %+v", f)
	}
}

// The repeats of a call have the key of the call, and a failed write has it in its result.
func TestAgentGetsTheKeyOfAFailedWrite(t *testing.T) {
	newIncident := map[string]any{"title": "a", "status": "investigating", "impact": "none", "message": "b"}
	s := startStub(t, failure(503, "unavailable"), cut)
	lost := s.agent(t, "--max-wait", "3s").fails(t, "create_incident", newIncident)
	if lost.Code != "no_connection" || len(lost.IdempotencyKey) != 36 || !strings.Contains(lost.Action, "this idempotencyKey") {
		t.Errorf("got %+v", lost)
	}
	if len(s.seen()) < 3 {
		t.Errorf("%d requests", len(s.seen()))
	}
	for _, r := range s.seen()[1:] {
		if r.Header.Get("Idempotency-Key") != lost.IdempotencyKey {
			t.Errorf("sent the key %q", r.Header.Get("Idempotency-Key"))
		}
	}
	for _, text := range []string{`{"id": 7}`, `[]`, `<html>`} {
		s := startStub(t, failure(503, "unavailable"), answer(200, text))
		f := s.agent(t).fails(t, "create_incident", newIncident)
		if f.Code != "unexpected_answer" || f.IdempotencyKey != s.seen()[len(s.seen())-1].Header.Get("Idempotency-Key") {
			t.Errorf("%s: %+v", text, f)
		}
	}
}
