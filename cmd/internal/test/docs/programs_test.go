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

	"opsgate/backendclient/testkit"
)

// A program is a program of a guide in a directory of its own.
type program struct {
	*testing.T

	system system
	file   string // path
}

// programChecks returns the check of each program by guide and title.
func programChecks() map[string]func(*program) {
	return map[string]func(*program){
		"quick-start/first-call.sh": func(p *program) { p.prints("read", `"tokenId":\s*"[0-9a-f-]{36}"`) },
		"quick-start/first_incident.py": func(p *program) {
			p.prints("full", `(?s) servers; the first is .*now resolved.* investigating We are .* resolved It was only a test\.`)
		},
		"authentication/check_token.py": func(p *program) {
			p.prints("read", `(?s)warning: the token has more.*audit:read.*is valid`)
			p.fails("incidents:read", "the token lacks servers:read")
			p.fails("revoked", "401: the API token is not valid")
		},
		"authentication/two-tokens.sh": func(p *program) {
			tokens := p.system.Tokens
			p.runWith(`\Aread token: can list incidents\nread token: opening an incident is 403, needs incidents:write\n`+
				`write token: may open incidents \(422 validation_error\)\n\z`,
				[]string{"OPSCTL_READ_TOKEN=" + tokens["incidents:read"], "OPSCTL_WRITE_TOKEN=" + tokens["incidents:write"]})
		},
		"authentication/what-changed.sh": func(p *program) { p.prints("audit:read", `\A([^\t\n]*\t[^\t\n]*\tincident\.[^\t\n]*\t[^\t\n]*\n)+\z`) },
		"pagination/all_incidents.py":    checkWalk,
		"pagination/all-incidents.sh":    checkWalk,
		"pagination/all_commands.py":     checkAllCommands,
		"idempotency/open-once.sh": func(p *program) {
			open := func(build string) string {
				return p.runWith(`[0-9a-f-]{36}`, []string{"OPSCTL_TOKEN=" + p.system.Tokens["incidents:write"], "BUILD_ID=" + build})
			}
			if first := open("4711"); open("4711") != first || open("4712") == first {
				p.Errorf("%q was opened twice, or is of two builds", first)
			}
		},
		"idempotency/open_once.py": func(p *program) {
			p = p.disturbed()
			id := p.prints("incidents:write", ` opened\n`, "alert-1")[:36]
			for range 2 {
				p.prints("incidents:write", id+" already open", "alert-1")
			}
		},
		"errors/handle_errors.py": func(p *program) {
			p.prints("full", `\ANone\nmessage is required\nstatus must be investigating, identified, monitoring or resolved\n\z`)
			p.prints("incidents:read", "this token needs incidents:write")
			p.fails("revoked", `unauthorized: .*\(request `)
		},
		"incremental-sync/sync.py":         func(p *program) { checkSync(p.disturbed()) },
		"fleet-metrics/collect.py":         func(p *program) { checkCollect(p.disturbed()) },
		"incidents-from-ci/ci-incident.sh": func(p *program) { checkCIIncident(p.disturbed()) },
		"incidents-from-ci/ci-opsctl.sh":   checkCIIncident,
		"versioning/tolerant.py":           func(p *program) { p.prints("monitors:read", `(?s) certificate (.*\n){12}`) },
		"versioning/deprecations.sh":       checkDeprecations,
	}
}

// prints runs the program with a demo token and returns what it prints, which matches the pattern.
func (p *program) prints(token, pattern string, arguments ...string) string {
	p.Helper()
	return p.runWith(pattern, []string{"OPSCTL_TOKEN=" + p.system.Tokens[token]}, arguments...)
}

func (p *program) runWith(pattern string, variables []string, arguments ...string) string {
	p.Helper()
	out, stderr, err := runIn(p.T, filepath.Dir(p.file), variables, append(interpreter(p.T, p.file), arguments...)...)
	if err != nil || !regexp.MustCompile(pattern).MatchString(out) {
		p.Fatalf("%v: it prints\n%s%s\nwant %s", err, out, stderr, pattern)
	}
	return out
}

// fails runs the program, which ends with an error that matches the pattern.
func (p *program) fails(token, pattern string) {
	p.Helper()
	out, stderr, err := runIn(p.T, filepath.Dir(p.file), []string{"OPSCTL_TOKEN=" + p.system.Tokens[token]}, interpreter(p.T, p.file)...)
	if err == nil || !regexp.MustCompile(pattern).MatchString(out+stderr) {
		p.Errorf("%v: it prints\n%s%s\nwant %s", err, out, stderr, pattern)
	}
}

// rerouted returns the same program for a proxy, which changes requests and answers. The client does not get an answer for which there is
// an error.
func (p *program) rerouted(request func(*http.Request), answer func(*http.Response) error) *program {
	p.Helper()
	target, err := url.Parse(p.system.BaseURL)
	testkit.Must(p.T, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target); request(r.Out) },
		ModifyResponse: answer,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // closes the connection
	})
	p.Cleanup(proxy.Close)
	text, err := os.ReadFile(p.file)
	testkit.Must(p.T, err)
	e := example{title: filepath.Base(p.file), text: strings.ReplaceAll(string(text), p.system.BaseURL, proxy.URL)}
	return &program{T: p.T, system: p.system, file: e.write(p.T, "")}
}

// disturbed returns the same program for a proxy that loses the second and the fifth answer, turns the fourth into a 503, and those after the
// fifth into more denials than a program has attempts.
func (p *program) disturbed() *program {
	p.Helper()
	requests := 0
	return p.rerouted(func(*http.Request) {}, func(r *http.Response) error {
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
	})
}

// checkWalk compares what the program prints with the incidents of the team, also when a cursor is not recognized once.
func checkWalk(p *program) {
	want := p.system.incidents(p.T, "full")
	if got := firstWords(p.prints("incidents:read", "")); len(want) < 160 || !slices.Equal(got, want) {
		p.Errorf("got %d incidents, want %d, or in another order", len(got), len(want))
	}
	broken := false
	p = p.rerouted(func(r *http.Request) {
		if query := r.URL.Query(); query.Has("cursor") && !broken {
			broken = true
			query.Set("cursor", "unknown")
			r.URL.RawQuery = query.Encode()
		}
	}, func(*http.Response) error { return nil })
	if filepath.Ext(p.file) == ".sh" {
		p.fails("incidents:read", "the cursor was not recognized")
	} else if got := firstWords(p.prints("incidents:read", "")); !slices.Equal(got, want) {
		p.Errorf("after a cursor that is not recognized: got %d incidents, want %d", len(got), len(want))
	}
}

func checkDeprecations(p *program) {
	p.prints("full", `\Ano operation that we use is deprecated\n\z`)
	p = p.rerouted(func(*http.Request) {}, func(r *http.Response) error {
		r.Header.Set("Deprecation", "@1798761600")
		r.Header.Set("Sunset", "Sat, 01 Jan 2028 00:00:00 GMT")
		return nil
	})
	p.prints("full", `/v1/servers will go: Sunset: Sat, 01 Jan 2028 00:00:00 GMT\n`)
}

func checkAllCommands(p *program) {
	id, total := "", 0
	for _, server := range p.system.servers(p.T) {
		var page struct{ Total int }
		if decode(p.T, p.system.send(p.T, http.MethodGet, "full", "/v1/servers/"+server+"/commands?pageSize=1", ""), &page); page.Total > total {
			id, total = server, page.Total
		}
	}
	ids := firstWords(p.prints("commands:read", "", id))
	slices.Sort(ids)
	if len(ids) != total || len(slices.Compact(ids)) != total || total <= 100 {
		p.Errorf("got %d commands of %d", len(ids), total)
	}
}

func checkSync(p *program) {
	const team = "other_team" // other programs do not change its incidents
	first := firstWords(p.prints(team, ""))
	if want := p.system.incidents(p.T, team); len(first) != len(want) {
		p.Errorf("the first run has %d of %d incidents", len(first), len(want))
	}
	p.prints(team, `\Ano changes\n\z`)
	opened := p.system.open(p.T, team, "Opened between two runs")
	p.prints(team, `\Achanged `+opened+` investigating Opened between two runs\n\z`)
	for range 3 { // several changes of one incident are read once
		p.system.send(p.T, http.MethodPost, team, "/v1/incidents/"+opened+"/updates", `{"status":"monitoring","message":"better"}`)
	}
	p.prints(team, `\Achanged `+opened+` monitoring Opened between two runs\n\z`)
}

func checkCollect(p *program) {
	points := make(map[string]int)
	for line := range strings.Lines(p.prints("read", "")) {
		server, _, _ := strings.Cut(line, ",")
		points[server]++
	}
	for server, n := range points {
		if n < 280 {
			p.Errorf("%s has only %d points of the last 24 hours", server, n)
		}
	}
	if again := p.prints("read", ""); len(points) < 5 || strings.Count(again, "\n") > len(points) {
		p.Errorf("after points of %d servers, the second round prints\n%s", len(points), again)
	}
}

func checkCIIncident(p *program) {
	path := os.Getenv("PATH")
	if strings.Contains(p.file, "opsctl") {
		programs := p.TempDir()
		run(p.T, ".", "go", "build", "-o", programs, "opsgate/cmd/opsctl")
		path = programs + string(os.PathListSeparator) + path
	}
	run := func(attempt, command, pattern string) string {
		return p.runWith(pattern, []string{
			"OPSCTL_TOKEN=" + p.system.Tokens["incidents:write"], "RUN_ID=1", "RUN_ATTEMPT=" + attempt, "PATH=" + path,
		}, command)
	}
	run("1", "resolve", `\Ano incident is open\n\z`)
	id := strings.Fields(run("1", "open", `opened incident [0-9a-f-]{36}\n`))[2]
	run("1", "open", id+" is already open")
	testkit.Must(p.T, os.Remove(filepath.Join(filepath.Dir(p.file), ".ci-incident"))) // a lost cache: the key still finds the incident
	run("1", "open", "opened incident "+id)
	run("2", "resolve", "resolved incident "+id)
	var i struct {
		Status  string
		Updates []struct{}
	}
	if decode(p.T, p.system.send(p.T, http.MethodGet, "full", "/v1/incidents/"+id, ""), &i); i.Status != "resolved" || len(i.Updates) != 2 {
		p.Errorf("got %+v", i)
	}
	if again := run("3", "open", "opened incident "); strings.Contains(again, id) {
		p.Errorf("the third attempt of a run opened %s again after it was resolved", id)
	}
}

// firstWords returns the first word of each line.
func firstWords(output string) (words []string) {
	for line := range strings.Lines(output) {
		if all := strings.Fields(line); len(all) > 0 {
			words = append(words, all[0])
		}
	}
	return words
}
