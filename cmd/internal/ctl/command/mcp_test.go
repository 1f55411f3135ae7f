package command_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"opsgate/cmd/internal/ctl/apiclient"
	"opsgate/cmd/internal/test/devtest"
	"opsgate/internal/testkit"
)

// An agent is a client of `opsctl mcp`, which runs as a process.
type agent struct {
	*mcp.ClientSession

	tools   map[string]*mcp.Tool
	results map[string]*jsonschema.Schema // the output schemas of the tools
}

// agent starts the program, whose first request is GET /v1/me, for the list of tools.
func (u user) agent(t *testing.T, flags ...string) agent {
	t.Helper()
	self, err := os.Executable()
	testkit.Must(t, err)
	cmd := exec.Command(self, append([]string{"mcp"}, flags...)...)
	log := new(testkit.Buffer)
	cmd.Stderr = log
	cmd.Env = append(os.Environ(), asProgram+"=1", "OPSCTL_URL="+u.url, "OPSCTL_TOKEN="+u.token)
	return u.connected(t, &mcp.CommandTransport{Command: cmd, TerminateDuration: testkit.MaxWait}, log)
}

// connected connects to a server with a log, and lists its tools.
func (u user) connected(t *testing.T, transport mcp.Transport, log *testkit.Buffer) agent {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatalf("connect: %v\n%s", err, log.String())
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("the program ended with %v:\n%s", err, log.String())
		}
		if u.token != "" && strings.Contains(log.String(), u.token) {
			t.Error("the log has the token")
		}
	})
	a := agent{session, map[string]*mcp.Tool{}, map[string]*jsonschema.Schema{}}
	list, err := a.ListTools(t.Context(), nil)
	testkit.Must(t, err)
	if list.CacheScope != "private" {
		t.Errorf("the list for a token may be cached for others: %q", list.CacheScope)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	for _, tool := range list.Tools {
		a.tools[tool.Name] = tool
		testkit.Must(t, compiler.AddResource(tool.Name, tool.OutputSchema))
		a.results[tool.Name], err = compiler.Compile(tool.Name)
		testkit.Must(t, err)
	}
	return a
}

// call calls a tool and decodes its result, which must match its output schema and be in the text
// too.
func (a agent) call(t *testing.T, name string, arguments map[string]any, into any) (failed bool) {
	t.Helper()
	result, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	testkit.Must(t, err)
	if err := a.results[name].Validate(result.StructuredContent); err != nil {
		t.Errorf("%s: the result does not match: %v", name, err)
	}
	structured, err := json.Marshal(result.StructuredContent)
	testkit.Must(t, err)
	var again any
	text, isText := result.Content[0].(*mcp.TextContent)
	if !isText || json.Unmarshal([]byte(text.Text), &again) != nil || string(must(json.Marshal(again))) != string(structured) {
		t.Errorf("%s: the content is %v", name, result.Content[0])
	}
	testkit.Must(t, json.Unmarshal(structured, into))
	return result.IsError
}

// failed is the result of a call that failed.
type failed struct {
	Error, Code, Action, RequestID, IdempotencyKey string
	Details                                        map[string]string
	RetryAfterSeconds, WaitedSeconds               float64
	Status                                         any // which no failure has
}

// fails calls a tool, which must fail.
func (a agent) fails(t *testing.T, name string, arguments map[string]any) failed {
	t.Helper()
	var f failed
	if !a.call(t, name, arguments, &f) || f.Error == "" || f.Action == "" || f.Status != nil {
		t.Errorf("%s: %+v", name, f)
	}
	return f
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// The server starts and lists its tools whatever the settings and the API are; the calls return the
// problem and what to do.
func TestAgentGetsProblemsOfTheConnectionAsResults(t *testing.T) {
	s := startSystem(t, devtest.HighLimits)
	missing := filepath.Join(t.TempDir(), "none")
	hangs := startStub(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for name, c := range map[string]struct {
		user
		flags        []string
		code, action string
	}{
		"no token":          {user{url: s.BaseURL}, nil, "invalid_settings", "correct the environment"},
		"no token file":     {s.as("full"), []string{"--token-file", missing}, "invalid_settings", "correct the environment"},
		"no URL":            {user{token: testToken}, nil, "invalid_settings", "correct the environment"},
		"a revoked token":   {s.as("revoked"), nil, "unauthorized", "valid API token"},
		"no plan":           {s.as("no_plan"), nil, "forbidden", "that details names"},
		"no API":            {user{url: "http://127.0.0.1:1", token: testToken}, nil, "no_connection", "is at the address"},
		"an API that hangs": {user{url: hangs.url, token: testToken}, []string{"--timeout", "100ms"}, "no_connection", "is at the address"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := c.agent(t, append(c.flags, "--max-wait", "100ms")...)
			if len(a.tools) != len(apiclient.Operations()) {
				t.Errorf("%d tools", len(a.tools))
			}
			if f := a.fails(t, "list_servers", nil); f.Code != c.code || !strings.Contains(f.Action, c.action) {
				t.Errorf("got %+v", f)
			}
		})
	}
}

func TestAgentUsesANewTokenInTheFile(t *testing.T) {
	s := startSystem(t, devtest.HighLimits)
	file := filepath.Join(t.TempDir(), "token")
	testkit.Must(t, os.WriteFile(file, []byte(s.Tokens["revoked"]), 0o600))
	a := user{url: s.BaseURL}.agent(t, "--token-file", file)
	a.fails(t, "me", nil)
	testkit.Must(t, os.WriteFile(file, []byte(s.Tokens["read"]), 0o600))
	var identity struct{ TeamID string }
	if a.call(t, "me", nil, &identity) || identity.TeamID == "" {
		t.Errorf("got %+v", identity)
	}
}

func TestAgentWithoutWriteAccessHasNoWriteTools(t *testing.T) {
	s := startSystem(t, devtest.HighLimits)
	for name, a := range map[string]agent{"a read token": s.as("read").agent(t), "--read-only": s.as("full").agent(t, "--read-only")} {
		for _, o := range apiclient.Operations() {
			var tool *mcp.Tool
			for _, candidate := range a.tools {
				if candidate.Title == o.Summary {
					tool = candidate
				}
			}
			if (tool == nil) != o.Writes() {
				t.Errorf("%s: the tool for %s is %v", name, o.ID, tool)
			}
		}
		if _, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: "create_incident"}); name == "--read-only" && err == nil {
			t.Error("a tool that is not offered was called")
		}
	}
}

func TestToolsAreDescribed(t *testing.T) {
	a := startSystem(t, devtest.HighLimits).as("full").agent(t)
	if len(a.tools) != len(apiclient.Operations()) {
		t.Errorf("%d tools", len(a.tools))
	}
	ofHTTP := regexp.MustCompile("HTTP|GET|POST|/v1|[Hh]eader|Idempotency-Key|If-None-Match|`[2-5][0-9][0-9]`")
	for name, tool := range a.tools {
		hints, writes := tool.Annotations, name == "create_incident" || name == "add_incident_update"
		if hints.Title != tool.Title || hints.ReadOnlyHint == writes || hints.IdempotentHint == writes ||
			*hints.DestructiveHint != writes || *hints.OpenWorldHint != writes {
			t.Errorf("%s has annotations %+v", name, hints)
		}
		described := tool.Title + tool.Description + string(must(json.Marshal(tool.InputSchema)))
		if found := ofHTTP.FindString(described); found != "" {
			t.Errorf("the description of %s has %q", name, found)
		}
	}
	schema := a.tools["add_incident_update"].InputSchema.(map[string]any)
	if required, _ := schema["required"].([]any); !slices.Contains(required, any("notifySubscribers")) {
		t.Errorf("required: %v", required)
	}
}

// The official inspector, whose client is the official library for TypeScript, and validates what it
// lists and calls.
func TestInspectorFindsNoFault(t *testing.T) {
	folder := testkit.Find(t, "../../../../tools/npm/node_modules/@modelcontextprotocol/inspector-cli/build")
	node := testkit.Find(t, "node")
	s := startSystem(t, devtest.HighLimits)
	self, err := os.Executable()
	testkit.Must(t, err)
	remote := startRemote(t, s.BaseURL)
	for _, c := range []struct {
		token, method string
		want          string
	}{
		{"full", "tools/list", `"name": "create_incident"`},
		{"full", "tools/call --tool-name list_servers", `"structuredContent"`},
		{"full", "tools/call --tool-name create_incident --tool-arg title=a status=identified impact=none message=b", `"status": "identified"`},
		{"full", "tools/call --tool-name list_incidents --tool-arg limit=500", "500 does not match: format int32, maximum 100"},
		{"revoked", "tools/call --tool-name me", `"code": "unauthorized"`},
	} {
		token := s.Tokens[c.token]
		for server, arguments := range map[string][]string{
			"a process": {self, "mcp"},
			"HTTP":      {remote.url, "--transport=http", "--header=Authorization: Bearer " + token},
		} {
			arguments = slices.Concat([]string{"index.js"}, arguments, []string{"--method"}, strings.Fields(c.method))
			cmd := exec.CommandContext(t.Context(), node, arguments...)
			cmd.Dir = folder // its package.json is searched for from here
			cmd.Env = append(os.Environ(), asProgram+"=1", "OPSCTL_URL="+s.BaseURL, "OPSCTL_TOKEN="+token)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%s: %s: %v\n%s", server, c.method, err, out)
			}
		}
	}
}

func TestAgentCanCallEveryTool(t *testing.T) {
	a := startSystem(t, devtest.HighLimits).as("read").agent(t)
	type list struct{ Items []struct{ ID string } }
	for _, o := range apiclient.Operations() {
		if o.Writes() {
			continue
		}
		arguments := map[string]any{}
		if segments := strings.Split(o.Path, "/"); len(segments) > 3 {
			var parents list
			if a.call(t, "list_"+strings.ReplaceAll(segments[2], "-", "_"), nil, &parents) {
				t.Fatalf("%s: got %v", o.Path, parents)
			}
			arguments["id"] = parents.Items[0].ID
		}
		for name, tool := range a.tools {
			var result map[string]any
			if tool.Title == o.Summary && (a.call(t, name, arguments, &result) || len(result) == 0) {
				t.Errorf("%s: %v", name, result)
			}
		}
	}
}

func TestResultsForAgentsAreBounded(t *testing.T) {
	points := make([]string, 5000)
	for i := range points {
		points[i] = fmt.Sprintf(`{"at": "2026-01-02T03:04:05.%03dZ", "cpuPercent": %d, "ramUsedMb": 1, "ramTotalMb": 2, "diskUsedGb": 1, "diskTotalGb": 2}`, i%1000, i/1000)
	}
	group := `{"id": "01234567-89ab-7def-8123-456789abcdef", "name": "a", "color": "#ff0000", "position": 1}`
	s := startStub(t,
		failure(503, "unavailable"),
		answer(200, `{"resolution": "raw", "range": "24h", "points": [`+strings.Join(points, ",")+`]}`),
		answer(200, `[`+group+strings.Repeat(","+group, 2000)+`]`),
	)
	a := s.agent(t, "--max-wait", "0s")
	var result struct {
		Points    []struct{ CPUPercent int }
		Items     []any
		Truncated struct {
			Field     string
			Shown, Of int
		}
	}
	if a.call(t, "get_server_metrics", map[string]any{"id": "01234567-89ab-7def-8123-456789abcdef"}, &result) || result.Truncated.Field != "points" ||
		result.Truncated.Of != 5000 || result.Truncated.Shown != len(result.Points) || len(result.Points) < 400 || len(result.Points) > 2500 {
		t.Fatalf("got %d points, %+v", len(result.Points), result.Truncated)
	}
	if newest := result.Points[len(result.Points)-1]; newest.CPUPercent != 4 {
		t.Errorf("the last point is %+v", newest)
	}
	if a.call(t, "list_server_groups", nil, &result) || result.Truncated.Field != "items" || result.Truncated.Of != 2001 {
		t.Errorf("got %+v", result.Truncated)
	}
}
