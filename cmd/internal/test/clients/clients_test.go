package clients

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"opsgate/cmd/internal/test/devtest"
	"opsgate/gateway/openapi"
	"opsgate/internal/testkit"
)

// A client is a generator and the program that uses what it generates.
type client struct {
	name string
	// needs are programs, and paths of what make test-packages installs.
	needs []string
	// generate writes the client and what it needs to a directory, and checks it. It returns the
	// command that runs the program.
	generate func(t *testing.T, dir string) []string
}

var clients = []client{
	{name: "go", generate: generateGo},
	{name: "typescript-fetch", needs: []string{"node", tsc, tsx, openAPITypeScript}, generate: generateFetch},
	{name: "typescript-hey", needs: []string{"node", tsc, tsx, heyAPI}, generate: generateHey},
	{name: "python", needs: []string{python, pythonGenerator, ruff}, generate: generatePython},
	{name: "java", needs: []string{"java", "javac", javaGenerator, javaLibraries}, generate: generateJava},
}

// Every client calls each kind of operation in the description. Each reads all pages, repeats
// requests that are disturbed, and gets the incident of the first request when it repeats a request
// with its key. The errors that a client can cause are decoded. Short tests run the client that
// needs neither packages nor another compiler.
func TestClients(t *testing.T) {
	reference := start(t, devtest.HighLimits)
	document := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(document, "openapi.json"), get(t, reference.BaseURL+"/openapi.json", ""), 0o600))
	kinds := kindsOf(t)
	want := expectedTour(t, reference)
	lowLimit := reference.limitedReads(t, "{requests: 3, per: 5s}")
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			if len(c.needs) > 0 {
				testkit.SkipIfShort(t)
			}
			t.Parallel()
			program, dir := c.prepare(t, document)
			checkErrors(t, runProgram(t, start(t, lowLimit), dir, append(program, "errors")))
			checkTour(t, dir, append(program, "tour"), want, kinds)
			if c.name == "java" {
				checkDenials(t, dir, program)
			}
		})
	}
}

// checkTour runs a program that calls each kind of operation, while a fifth of the requests is
// disturbed.
func checkTour(t *testing.T, dir string, program []string, want map[string]any, kinds map[string][]string) {
	t.Helper()
	s := start(t, devtest.HighLimits, "--disturb=20%")
	var tour map[string]any
	decode(t, runProgram(t, s, dir, program), &tour)
	for name, value := range want {
		if tour[name] != value {
			t.Errorf("%s: %v, want %v", name, tour[name], value)
		}
	}
	checkCalled(t, s, kinds)
	if !strings.Contains(s.Log.String(), "msg=disturbed") {
		t.Error("no request was disturbed")
	}
}

func checkCalled(t *testing.T, s system, kinds map[string][]string) {
	t.Helper()
	called := s.called(t)
	for kind, operations := range kinds {
		if !slices.ContainsFunc(operations, func(id string) bool { return called[id] }) {
			t.Errorf("none of %s was called, and no other operation has: %s", operations, kind)
		}
	}
}

func checkErrors(t *testing.T, output []byte) {
	t.Helper()
	var errs []string
	decode(t, output, &errs)
	limited := regexp.MustCompile(`^rate_limited retry-after=[1-9]$`)
	last := len(expectedErrors)
	if len(errs) != last+1 || !slices.Equal(errs[:last], expectedErrors) || !limited.MatchString(errs[last]) {
		t.Errorf("errors are decoded as\n%q, want\n%q and %s", errs, expectedErrors, limited)
	}
}

var expectedErrors = []string{
	"unauthorized", "forbidden required=incidents:write", "forbidden requiredPlan=ai", "not_found", "payload_too_large",
	"unsupported_media_type", "validation_error message,title",
}

// expectedTour returns what a tour of the demo data finds. The tour itself adds an incident with
// one update.
func expectedTour(t *testing.T, s system) map[string]any {
	t.Helper()
	type object map[string]any
	count := func(path string) float64 { return float64(len(read[[]object](t, s, path))) }
	servers, pages := read[[]object](t, s, "/v1/servers"), read[[]object](t, s, "/v1/status-pages")
	i := slices.IndexFunc(servers, func(server object) bool { return server["name"] == "db-primary" })
	server, page := "/v1/servers/"+servers[i]["id"].(string), "/v1/status-pages/"+pages[0]["id"].(string)
	return map[string]any{
		"scopes":            float64(len(read[object](t, s, "/v1/me")["scopes"].([]any))),
		"servers":           float64(len(servers)),
		"server":            "db-primary",
		"groups":            count("/v1/server-groups"),
		"scheduledCommands": count(server + "/scheduled-commands"),
		"commands":          read[object](t, s, server+"/commands")["total"],
		"monitors":          count("/v1/monitors"),
		"pages":             float64(len(pages)),
		"components":        float64(len(read[object](t, s, page)["components"].([]any))),
		"pageIncidents":     count(page + "/incidents"),
		"incidents":         float64(countPages(t, s, "/v1/incidents?limit=100") + 1),
		"auditEntries":      float64(countPages(t, s, "/v1/audit?action=incident.&limit=100") + 2),
		"updates":           2.0,
		"replayed":          true,
		"resolved":          true,
		"recent":            true,
	}
}

func countPages(t *testing.T, s system, path string) (n int) {
	t.Helper()
	type page struct {
		Items      []any
		NextCursor *string
	}
	for next := path; next != ""; {
		p := read[page](t, s, next)
		n += len(p.Items)
		next = ""
		if p.NextCursor != nil {
			next = path + "&cursor=" + *p.NextCursor
		}
	}
	return n
}

// kindsOf returns the ids of the operations by what the generators distinguish: the method with an
// id in the path and a list or an object as the response, each parameter, and the body.
func kindsOf(t *testing.T) map[string][]string {
	t.Helper()
	document, err := openapi.Read(openapi.YAML())
	testkit.Must(t, err)
	kinds := map[string][]string{}
	for _, o := range document.Operations {
		of := []string{fmt.Sprintf("%s, {id} %t, response %s", o.Method, strings.Contains(o.Path, "{id}"), o.Answer().Type)}
		if o.Method == http.MethodPost {
			of = append(of, "body of "+o.ID)
		}
		for _, p := range o.Parameters {
			of = append(of, fmt.Sprint("parameter ", p.Name, " ", p.Schema.Type))
		}
		for _, kind := range of {
			kinds[kind] = append(kinds[kind], o.ID)
		}
	}
	return kinds
}

// prepare generates the client in a directory with copies of files, and returns the command of the
// program that uses it. It skips the test if something that the client needs is missing; in CI it
// fails.
func (c client) prepare(t *testing.T, files string) (program []string, dir string) {
	t.Helper()
	for _, need := range c.needs {
		testkit.Find(t, need)
	}
	readSources(t)
	dir = t.TempDir()
	testkit.Must(t, os.CopyFS(dir, os.DirFS(files)))
	return c.generate(t, dir), dir
}

// runProgram runs the program of a client and returns its output.
func runProgram(t *testing.T, s system, dir string, argv []string) []byte {
	t.Helper()
	return run(t, dir, []string{
		"OPSCTL_URL=" + s.BaseURL, "OPSCTL_TOKEN=" + s.Tokens["full"],
		"OPSCTL_READ_TOKEN=" + s.Tokens["read"], "OPSCTL_NO_PLAN_TOKEN=" + s.Tokens["no_plan"],
	}, argv...)
}
