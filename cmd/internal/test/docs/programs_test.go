package docs

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"opsgate/cmd/internal/test/devtest"
	"opsgate/internal/testkit"
)

// A program is a program of a guide in a directory of its own.
type program struct {
	*testing.T

	system system
	file   string // path
}

// A step runs a program once.
type step struct {
	token     string
	prints    string // pattern
	arguments []string
	variables []string
	fails     bool
}

// steps are those of each program by guide and title. The directory of a program stays from step to
// step.
func (s system) steps(t *testing.T) map[string][]step {
	t.Helper()
	build := func(id, pattern string) step {
		return step{"incidents:write", pattern, nil, []string{"BUILD_ID=" + id}, false}
	}
	ci := func(attempt, command, pattern string) step {
		return step{"incidents:write", pattern, []string{command}, []string{"RUN_ID=1", "RUN_ATTEMPT=" + attempt}, false}
	}
	inCI := []step{
		ci("1", "resolve", `\Ano incident is open\n\z`), ci("1", "open", `opened incident [0-9a-f-]{36}\n`), ci("1", "open", "is already open"),
		ci("2", "resolve", "resolved incident "), ci("3", "open", "opened incident "),
	}
	incidents := []step{{token: "incidents:read", prints: `\A(?:\S+\s.*\n){160,}\z`}}
	const id = `\A[0-9a-f-]{36}`
	return map[string][]step{
		"quick-start/first-call.sh": {{token: "read", prints: `"tokenId":\s*"[0-9a-f-]{36}"`}},
		"quick-start/first_incident.py": {{
			token: "full", prints: `(?s) servers; the first is .*now resolved.* investigating We are .* resolved It was only a test\.`,
		}},
		"authentication/check_token.py": {
			{token: "read", prints: `(?s)warning: the token has more.*audit:read.*is valid`},
			{token: "incidents:read", prints: "the token lacks servers:read", fails: true},
			{token: "revoked", prints: "401: the API token is not valid", fails: true},
		},
		"authentication/two-tokens.sh": {{
			prints: `\Aread token: can list incidents\nread token: opening an incident is 403, needs incidents:write\n` +
				`write token: may open incidents \(422 validation_error\)\n\z`,
			variables: []string{"OPSCTL_READ_TOKEN=" + s.Tokens["incidents:read"], "OPSCTL_WRITE_TOKEN=" + s.Tokens["incidents:write"]},
		}},
		"authentication/what-changed.sh": {{token: "audit:read", prints: `\A([^\t\n]*\t[^\t\n]*\tincident\.[^\t\n]*\t[^\t\n]*\n)+\z`}},
		"pagination/all_incidents.py":    incidents,
		"pagination/all-incidents.sh":    incidents,
		"pagination/all_commands.py":     {{token: "commands:read", prints: `\A(?:\S+\s.*\n){101,}\z`, arguments: []string{s.busiestServer(t)}}},
		"idempotency/open-once.sh":       {build("4711", id), build("4711", id), build("4712", id)},
		"idempotency/open_once.py": {
			{token: "incidents:write", prints: id + ` opened\n`, arguments: []string{"alert-1"}},
			{token: "incidents:write", prints: id + " already open", arguments: []string{"alert-1"}},
			{token: "incidents:write", prints: id + " already open", arguments: []string{"alert-1"}},
		},
		"errors/handle_errors.py": {
			{token: "full", prints: `\ANone\nmessage is required\nstatus must be investigating, identified, monitoring or resolved\n\z`},
			{token: "incidents:read", prints: "this token needs incidents:write"},
			{token: "revoked", prints: `unauthorized: .*\(request `, fails: true},
		},
		"incremental-sync/sync.py":         {{token: "other_team", prints: `\A(?:changed \S+ .*\n)+\z`}, {token: "other_team", prints: `\Ano changes\n\z`}},
		"fleet-metrics/collect.py":         {{token: "read", prints: `\A(?:.+,.+\n){1000,}\z`}, {token: "read", prints: `\A(?:.+,.+\n){0,100}\z`}},
		"incidents-from-ci/ci-incident.sh": inCI,
		"incidents-from-ci/ci-opsctl.sh":   inCI,
		"versioning/tolerant.py":           {{token: "monitors:read", prints: `(?s) certificate (.*\n){12}`}},
		"versioning/deprecations.sh":       {{token: "full", prints: `\Ano operation that we use is deprecated\n\z`}},
	}
}

// repeating are the programs that repeat failed requests.
var repeating = []string{"idempotency/open_once.py", "incremental-sync/sync.py", "fleet-metrics/collect.py", "incidents-from-ci/ci-incident.sh"}

// busiestServer returns the id of the server with the most commands.
func (s system) busiestServer(t *testing.T) (id string) {
	t.Helper()
	var servers []struct{ ID string }
	decode(t, s.send(t, http.MethodGet, "full", "/v1/servers", ""), &servers)
	most := 0
	for _, server := range servers {
		var page struct{ Total int }
		decode(t, s.send(t, http.MethodGet, "full", "/v1/servers/"+server.ID+"/commands?pageSize=1", ""), &page)
		if page.Total > most {
			id, most = server.ID, page.Total
		}
	}
	return id
}

// TestProgramsOfGuides runs each program of the guides, and checks what it prints.
func TestProgramsOfGuides(t *testing.T) {
	s := start(t, devtest.HighLimits)
	programs, steps := t.TempDir(), s.steps(t)
	run(t, ".", "go", "build", "-o", programs, "opsgate/cmd/opsctl")
	t.Setenv("PATH", programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, e := range blocks(t) {
		if strings.Contains(e.title, " ") || e.guide == webhooksGuide || e.guide == "rate-limits" {
			continue
		}
		name := e.guide + "/" + e.title
		t.Run(name, func(t *testing.T) {
			p := &program{T: t, system: s, file: e.write(t, s.BaseURL)}
			if slices.Contains(repeating, name) {
				p = p.disturbed()
			}
			for _, step := range steps[name] {
				p.run(step)
			}
		})
		if len(steps[name]) == 0 {
			t.Errorf("%s: no step runs this program", name)
		}
		delete(steps, name)
	}
	for name := range steps {
		t.Errorf("no guide has the program %s", name)
	}
}

// run runs the program, and checks what it prints.
func (p *program) run(s step) {
	p.Helper()
	variables := slices.Concat(s.variables, []string{"OPSCTL_TOKEN=" + p.system.Tokens[s.token]})
	out, stderr, err := runIn(p.T, filepath.Dir(p.file), variables, append(interpreter(p.T, p.file), s.arguments...)...)
	if s.fails {
		out += stderr
	}
	if (err != nil) != s.fails || !regexp.MustCompile(s.prints).MatchString(out) {
		p.Fatalf("%v: it prints\n%s%s\nwant %s", err, out, stderr, s.prints)
	}
}

// disturbed returns the same program for a proxy that loses the second and the fifth answer, turns
// the fourth into a 503, and those after the fifth into more denials than a program has attempts.
func (p *program) disturbed() *program {
	p.Helper()
	target, err := url.Parse(p.system.BaseURL)
	testkit.Must(p.T, err)
	requests := 0
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			switch requests++; {
			case requests == 2, requests == 5:
				return errors.New("lost")
			case requests == 4:
				r.StatusCode = http.StatusServiceUnavailable
			case requests > 5 && requests <= 14:
				r.StatusCode = http.StatusTooManyRequests
				r.Header.Set("Retry-After", "1")
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // closes the connection
	})
	p.Cleanup(proxy.Close)
	text, err := os.ReadFile(p.file)
	testkit.Must(p.T, err)
	e := example{title: filepath.Base(p.file), text: strings.ReplaceAll(string(text), p.system.BaseURL, proxy.URL)}
	return &program{T: p.T, system: p.system, file: e.write(p.T, "")}
}
