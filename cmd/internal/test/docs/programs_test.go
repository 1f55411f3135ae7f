package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

// A programCheck runs a program and checks what it did.
type programCheck struct {
	limited bool                                // against the default limits
	through func(t *testing.T, s system) string // returns the URL of something in front of the system; nil for nothing
	run     func(p *program)
}

// programChecks returns the check of each program by guide and title.
func programChecks() map[string]programCheck {
	resilient := func() programCheck {
		c := new(resilience)
		return programCheck{limited: true, through: c.start, run: c.check}
	}
	walk := func() programCheck {
		w := new(walk)
		return programCheck{through: w.start, run: w.check}
	}
	removal := new(deprecation)
	return map[string]programCheck{
		"quick-start/first-call.sh":        {run: checkFirstCall},
		"quick-start/first_incident.py":    {run: checkFirstIncident},
		"authentication/check_token.py":    {run: checkCheckToken},
		"authentication/two-tokens.sh":     {run: checkTwoTokens},
		"authentication/what-changed.sh":   {run: checkWhatChanged},
		"pagination/all_incidents.py":      walk(),
		"pagination/all-incidents.sh":      walk(),
		"pagination/all_commands.py":       {run: checkAllCommands},
		"rate-limits/client.py":            resilient(),
		"rate-limits/client.mts":           resilient(),
		"rate-limits/main.go":              resilient(),
		"idempotency/open-once.sh":         {run: checkOpenOnceShell},
		"idempotency/open_once.py":         {run: checkOpenOncePython},
		"errors/handle_errors.py":          {run: checkHandleErrors},
		"incremental-sync/sync.py":         {through: faultyReads, run: checkSync},
		"fleet-metrics/collect.py":         {through: faultyReads, run: checkCollect},
		"incidents-from-ci/ci-incident.sh": {through: faultyPosts, run: checkCIIncident},
		"incidents-from-ci/ci-opsctl.sh":   {run: checkCIIncident},
		"versioning/tolerant.py":           {run: checkTolerant},
		"versioning/deprecations.sh":       {through: removal.start, run: removal.check},
	}
}

// idForm matches an id.
var idForm = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

func (p *program) wantContains(output string, parts ...string) {
	p.Helper()
	for _, part := range parts {
		if !strings.Contains(output, part) {
			p.Errorf("the output lacks %q:\n%s", part, output)
		}
	}
}

// fails runs the program and returns its output if it ends with an error, else fails the test.
func (p *program) fails(token string) string {
	p.Helper()
	output, stderr, err := runIn(p.T, filepath.Dir(p.file), []string{"OPSCTL_TOKEN=" + token}, interpreter(p.T, p.file)...)
	if err == nil {
		p.Errorf("it did not fail:\n%s%s", output, stderr)
	}
	return output + stderr
}

func checkFirstCall(p *program) {
	var me struct{ TeamID, TokenID string }
	decode(p.T, []byte(p.run("read")), &me)
	if !idForm.MatchString(me.TokenID) || !idForm.MatchString(me.TeamID) {
		p.Errorf("got %+v", me)
	}
}

func checkFirstIncident(p *program) {
	output := p.run("full")
	p.wantContains(output, " servers; the first is ", "now resolved", " investigating We are ", " resolved It was only a test.")
	if got := p.system.incident(p.T, idForm.FindString(lines(output)[1])); got.Status != "resolved" || len(got.Updates) != 2 {
		p.Errorf("got %+v", got)
	}
}

func checkCheckToken(p *program) {
	p.wantContains(p.run("read"), "warning: the token has more", "audit:read", "is valid")
	p.wantContains(p.fails(p.system.Tokens["incidents:read"]), "the token lacks servers:read")
	p.wantContains(p.fails(p.system.Tokens["revoked"]), "401: the API token is not valid")
}

func checkTwoTokens(p *program) {
	output := p.runWith([]string{
		"OPSCTL_READ_TOKEN=" + p.system.Tokens["incidents:read"], "OPSCTL_WRITE_TOKEN=" + p.system.Tokens["incidents:write"],
	})
	want := "read token: can list incidents\n" +
		"read token: opening an incident is 403, needs incidents:write\n" +
		"write token: may open incidents (422 validation_error)\n"
	if output != want {
		p.Errorf("got %s", output)
	}
}

func checkWhatChanged(p *program) {
	for _, line := range lines(p.run("audit:read")) {
		if fields := strings.Split(line, "\t"); len(fields) != 4 || !strings.HasPrefix(fields[2], "incident.") {
			p.Errorf("got %q", line)
		}
	}
}

func checkAllCommands(p *program) {
	server, total := p.system.busiestServer(p.T)
	ids := firstWords(p.run("commands:read", server))
	slices.Sort(ids)
	if got := len(slices.Compact(ids)); got != total || len(ids) != total || total <= 100 {
		p.Errorf("got %d commands of %d", got, total)
	}
}

func checkOpenOnceShell(p *program) {
	run := func(build string) string {
		return p.runWith([]string{"OPSCTL_TOKEN=" + p.system.Tokens["incidents:write"], "BUILD_ID=" + build})
	}
	first, second := run("4711"), run("4711")
	if first != second || !idForm.MatchString(first) {
		p.Errorf("got %q and %q", first, second)
	}
	if other := run("4712"); other == first {
		p.Errorf("another build has the same incident %q", other)
	}
}

func checkOpenOncePython(p *program) {
	first, second := p.run("incidents:write", "alert-1"), p.run("incidents:write", "alert-1")
	p.wantContains(first, " opened")
	p.wantContains(second, idForm.FindString(first)+" already open")
}

func checkHandleErrors(p *program) {
	want := "None\nmessage is required\nstatus must be investigating, identified, monitoring or resolved\n"
	if got := p.run("full"); got != want {
		p.Errorf("got %s", got)
	}
	p.wantContains(p.run("incidents:read"), "this token needs incidents:write")
	p.wantContains(p.fails(p.system.Tokens["revoked"]), "unauthorized: ", "(request ")
}

func checkSync(p *program) {
	// A team of its own, so that no other test changes its incidents.
	first := p.run("other_team")
	if got, want := len(lines(first)), len(p.system.incidentsOf(p.T, "other_team")); got != want {
		p.Errorf("the first run has %d of %d incidents", got, want)
	}
	if got := p.run("other_team"); got != "no changes\n" {
		p.Errorf("the second run has %q", got)
	}
	opened := p.system.open(p.T, "other_team", "Opened between two runs")
	if got, want := p.run("other_team"), "changed "+opened+" investigating Opened between two runs\n"; got != want {
		p.Errorf("got %q, want %q", got, want)
	}
	for range 3 { // several changes of one incident are read once
		p.system.post(p.T, "other_team", "/v1/incidents/"+opened+"/updates", `{"status":"monitoring","message":"better"}`)
	}
	if got, want := p.run("other_team"), "changed "+opened+" monitoring Opened between two runs\n"; got != want {
		p.Errorf("got %q, want %q", got, want)
	}
}

func checkCollect(p *program) {
	first := lines(p.run("read"))
	servers := make(map[string]int)
	for _, line := range first {
		servers[strings.Split(line, ",")[0]]++
	}
	if want := p.system.serversWithMetrics(p.T); len(servers) != want {
		p.Errorf("got points of %d servers, want %d", len(servers), want)
	}
	for server, points := range servers {
		if points < 280 {
			p.Errorf("%s has only %d points of the last 24 hours", server, points)
		}
	}
	if again := strings.TrimSpace(p.run("read")); again != "" && len(lines(again)) > len(servers) {
		p.Errorf("the second round repeats points:\n%s", again)
	}
}

func checkCIIncident(p *program) {
	path := os.Getenv("PATH")
	if strings.Contains(p.file, "opsctl") {
		programs := p.TempDir()
		run(p.T, ".", "go", "build", "-o", programs, "opsgate/cmd/opsctl")
		path = programs + string(os.PathListSeparator) + path
	}
	run := func(attempt, command string) string {
		return p.runWith([]string{
			"OPSCTL_TOKEN=" + p.system.Tokens["incidents:write"], "RUN_ID=1", "RUN_ATTEMPT=" + attempt, "PATH=" + path,
		}, command)
	}
	if got := run("1", "resolve"); got != "no incident is open\n" {
		p.Errorf("got %q", got)
	}
	opened := run("1", "open")
	id := idForm.FindString(opened)
	p.wantContains(opened, "opened incident "+id)
	p.wantContains(run("1", "open"), id+" is already open")
	testkit.Must(p.T, os.Remove(filepath.Join(filepath.Dir(p.file), ".ci-incident"))) // a lost cache: the key still finds the incident
	p.wantContains(run("1", "open"), "opened incident "+id)
	if got := p.system.incident(p.T, id); got.Status != "investigating" {
		p.Errorf("got %+v", got)
	}
	p.wantContains(run("2", "resolve"), "resolved incident "+id)
	if got := p.system.incident(p.T, id); got.Status != "resolved" || len(got.Updates) != 2 {
		p.Errorf("got %+v", got)
	}
	if again := idForm.FindString(run("3", "open")); again == id || p.system.incident(p.T, again).Status != "investigating" {
		p.Errorf("the third attempt of a run opened %q after %s was resolved", again, id)
	}
}

func checkTolerant(p *program) {
	output := p.run("monitors:read")
	if len(lines(output)) < 12 || !strings.Contains(output, " certificate ") {
		p.Errorf("got %s", output)
	}
}
