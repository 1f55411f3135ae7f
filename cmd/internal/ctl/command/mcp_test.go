package command_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"opsgate/cmd/internal/ctl/apiclient"
	"opsgate/cmd/internal/kit/logging/loggingtest"
	"opsgate/cmd/internal/test/devtest"
	"opsgate/cmd/internal/test/testkit"
)

// An agent is a client of `opsctl mcp`, which runs as a process.
type agent struct {
	*mcp.ClientSession

	log *loggingtest.Buffer
}

func (u user) agent(t *testing.T, flags ...string) agent {
	t.Helper()
	self, err := os.Executable()
	testkit.Must(t, err)
	cmd := exec.Command(self, append([]string{"mcp"}, flags...)...)
	log := new(loggingtest.Buffer)
	cmd.Stderr = log
	cmd.Env = append(os.Environ(), asProgram+"=1", "OPSCTL_URL="+u.url, "OPSCTL_TOKEN="+u.token)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("connect: %v\n%s", err, log.String())
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("the program ended with %v:\n%s", err, log.String())
		}
		if strings.Contains(log.String(), u.token) {
			t.Error("the log has the token")
		}
	})
	return agent{session, log}
}

// tools returns the tools by name.
func (a agent) tools(t *testing.T) map[string]*mcp.Tool {
	t.Helper()
	list, err := a.ListTools(t.Context(), nil)
	testkit.Must(t, err)
	byName := map[string]*mcp.Tool{}
	for _, tool := range list.Tools {
		byName[tool.Name] = tool
	}
	return byName
}

// call calls a tool and decodes its result.
func (a agent) call(t *testing.T, name string, arguments map[string]any, into any) (failed bool) {
	t.Helper()
	result, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	testkit.Must(t, err)
	text, isText := result.Content[0].(*mcp.TextContent)
	if !isText {
		t.Fatalf("%s: the content is %T", name, result.Content[0])
	}
	if result.StructuredContent != nil {
		structured, err := json.Marshal(result.StructuredContent)
		testkit.Must(t, err)
		testkit.Must(t, json.Unmarshal(structured, into))
		return result.IsError
	}
	if !result.IsError {
		t.Errorf("%s: a result without structure: %s", name, text.Text)
	}
	*(into.(*string)) = text.Text
	return true
}

func TestAgentWithReadTokenHasNoWriteTools(t *testing.T) {
	a := startSystem(t, devtest.HighLimits).as("read").agent(t)
	tools := a.tools(t)
	for _, o := range apiclient.Operations() {
		named := func(tool *mcp.Tool) bool { return tool.Title == o.Summary }
		var tool *mcp.Tool
		for _, candidate := range tools {
			if named(candidate) {
				tool = candidate
			}
		}
		switch {
		case o.Writes() && tool != nil:
			t.Errorf("there is a tool for %s", o.ID)
		case !o.Writes() && tool == nil:
			t.Errorf("there is no tool for %s", o.ID)
		case tool != nil && (!tool.Annotations.ReadOnlyHint || *tool.Annotations.DestructiveHint || *tool.Annotations.OpenWorldHint):
			t.Errorf("%s has annotations %+v", tool.Name, tool.Annotations)
		}
	}
	var servers struct{ Items []struct{ ID, Name string } }
	if a.call(t, "list_servers", nil, &servers) || len(servers.Items) < 25 {
		t.Fatalf("got %v", servers)
	}
	var server struct{ Name string }
	if a.call(t, "get_server", map[string]any{"id": servers.Items[0].ID}, &server) || server.Name != servers.Items[0].Name {
		t.Errorf("got %v", server)
	}
	type page struct {
		Items         []any
		NextCursor    string
		CursorIgnored bool
	}
	var first, restarted, beyond page
	if a.call(t, "list_incidents", map[string]any{"limit": 2}, &first) || len(first.Items) != 2 || first.NextCursor == "" || first.CursorIgnored {
		t.Errorf("got %v", first)
	}
	if a.call(t, "list_incidents", map[string]any{"cursor": "unknown"}, &restarted) || !restarted.CursorIgnored {
		t.Errorf("with an unknown cursor: %v", restarted)
	}
	commands := map[string]any{"id": servers.Items[0].ID, "page": 1_000_000}
	if a.call(t, "list_server_commands", commands, &beyond) || len(beyond.Items) > 0 {
		t.Errorf("a page beyond the end: %v", beyond)
	}
	var unknown struct{ Code, Error, RequestID string }
	if !a.call(t, "get_server", map[string]any{"id": "01234567-89ab-7def-8123-456789abcdef"}, &unknown) || unknown.Code != "not_found" || unknown.RequestID == "" {
		t.Errorf("an unknown server: %+v", unknown)
	}
	var text string
	if !a.call(t, "get_server", map[string]any{"id": "../me"}, &text) || !strings.Contains(text, "pattern") {
		t.Errorf("an invalid id: %s", text)
	}
}

func TestAgentCreatesAndResolvesAnIncident(t *testing.T) {
	a := startSystem(t, devtest.HighLimits).as("full").agent(t)
	tools := a.tools(t)
	if len(tools) != len(apiclient.Operations()) {
		t.Errorf("%d tools", len(tools))
	}
	for _, name := range []string{"create_incident", "add_incident_update"} {
		hints := tools[name].Annotations
		if hints.ReadOnlyHint || hints.IdempotentHint || !*hints.DestructiveHint || !*hints.OpenWorldHint {
			t.Errorf("%s has annotations %+v", name, hints)
		}
	}
	schema := tools["add_incident_update"].InputSchema.(map[string]any)
	if required, _ := schema["required"].([]any); !slices.Contains(required, any("notifySubscribers")) {
		t.Errorf("required: %v", required)
	}

	newIncident := map[string]any{"title": "a", "status": "investigating", "impact": "none", "message": "b"}
	var first, second, repeated struct{ ID string }
	if a.call(t, "create_incident", newIncident, &first) || a.call(t, "create_incident", newIncident, &second) || first.ID == second.ID {
		t.Errorf("two calls created %q and %q", first.ID, second.ID)
	}
	newIncident["idempotencyKey"] = "agent-1"
	if a.call(t, "create_incident", newIncident, &first) || a.call(t, "create_incident", newIncident, &repeated) || first.ID != repeated.ID {
		t.Errorf("a repeated call created %q and %q", first.ID, repeated.ID)
	}

	update := map[string]any{"id": first.ID, "status": "resolved", "message": "done"}
	var text string
	if !a.call(t, "add_incident_update", update, &text) || !strings.Contains(text, "notifySubscribers") {
		t.Errorf("without notifySubscribers: %s", text)
	}
	update["notifySubscribers"] = false
	var posted, incident struct {
		ID, Status string
		Updates    []any
	}
	if a.call(t, "add_incident_update", update, &posted) || posted.Status != "resolved" {
		t.Errorf("posted %+v", posted)
	}
	if a.call(t, "get_incident", map[string]any{"id": first.ID}, &incident) || incident.Status != "resolved" || len(incident.Updates) != 2 {
		t.Errorf("got %+v", incident)
	}
	var invalid struct {
		Code    string
		Details map[string]string
	}
	newIncident["title"] = "\x07"
	if !a.call(t, "create_incident", newIncident, &invalid) || invalid.Code != "validation_error" || invalid.Details["title"] == "" {
		t.Errorf("an invalid title: %+v", invalid)
	}
}

func TestAgentIsToldTheSecondsToWait(t *testing.T) {
	a := startSystem(t, oneAMinute).as("read").agent(t) // GET /v1/me used the only request
	var limited struct {
		RateLimited       bool
		RetryAfterSeconds int
	}
	if a.call(t, "list_servers", nil, &limited) || !limited.RateLimited || limited.RetryAfterSeconds < 10 || limited.RetryAfterSeconds > 70 {
		t.Errorf("got %+v", limited)
	}
}

// The repeats of a call have the key of the call, and a failed write has it in its result.
func TestAgentGetsTheKeyOfAFailedWrite(t *testing.T) {
	s := startStub(t, answer(200, strings.Replace(identity, "new:scope", "incidents:write", 1)), cut)
	var lost struct{ Code, IdempotencyKey string }
	newIncident := map[string]any{"title": "a", "status": "investigating", "impact": "none", "message": "b"}
	if !s.agent(t, "--max-wait", "700ms").call(t, "create_incident", newIncident, &lost) || lost.Code != "no_connection" || len(lost.IdempotencyKey) != 36 {
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
}

func TestResultsForAgentsAreBounded(t *testing.T) {
	scopes := strings.Replace(identity, `"new:scope"`, `"servers:read", "metrics:read"`, 1)
	points := make([]string, 5000)
	for i := range points {
		points[i] = fmt.Sprintf(`{"at": %d, "cpuPercent": 12.5}`, i)
	}
	s := startStub(t,
		answer(200, scopes),
		answer(200, `{"resolution": "raw", "points": [`+strings.Join(points, ",")+`]}`),
		answer(200, `[`+strings.Join(points, ",")+`]`),
	)
	a := s.agent(t)
	type point struct{ At int }
	var series struct {
		Points, Items []point
		Truncated     struct {
			Field     string
			Shown, Of int
		}
	}
	if a.call(t, "get_server_metrics", map[string]any{"id": "01234567-89ab-7def-8123-456789abcdef"}, &series) || series.Truncated.Field != "points" ||
		series.Truncated.Of != 5000 || series.Truncated.Shown != len(series.Points) || len(series.Points) < 1000 || len(series.Points) > 2500 {
		t.Fatalf("got %d points, %+v", len(series.Points), series.Truncated)
	}
	if newest := series.Points[len(series.Points)-1]; newest.At != 4999 {
		t.Errorf("the last point is %+v", newest)
	}
	if a.call(t, "list_servers", nil, &series) || series.Truncated.Field != "items" || series.Items[0].At != 0 {
		t.Errorf("got %+v", series.Truncated)
	}
}

func TestAgentProgramNeedsAValidToken(t *testing.T) {
	s := startStub(t, failure(http.StatusUnauthorized, "unauthorized"))
	if r := s.run(t, "mcp"); r.code != 3 || r.out != "" || !strings.Contains(r.err, "401 unauthorized") {
		t.Errorf("got %+v", r)
	}
}
