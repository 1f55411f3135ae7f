package command_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/command"
	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/testkit"
	"opsgate/ratelimit"
)

func TestDiffOfTwoFiles(t *testing.T) {
	const partner = "rate_limit: {classes: {partner: {limits: [{requests: 9, per: 1s}], teams: [20000000-0000-4000-8000-000000000001], tokens: [00000000-0000-4000-8000-000000000009]}}}\n"
	before := write(t, good+partner)
	for _, test := range []struct {
		name, after string
		code        int
		want        string
	}{
		{"nothing", "# a comment\n" + good + partner, 0, "nothing changes\n"},
		{"a key that needs a restart", strings.Replace(good, "listen: 127.0.0.1:0", "listen: 127.0.0.1:1", 1) + partner, 1,
			"keys listen: 127.0.0.1:0, now 127.0.0.1:1\n" +
				"restart AFTER:1: listen: a change needs a restart (opened at start)\n"},
		{"a team and a token leave a class", good, 1,
			"keys rate_limit.classes.partner.limits[0].requests: 9, now removed\n" +
				"keys rate_limit.classes.partner.limits[0].per: 1s, now removed\n" +
				"keys rate_limit.classes.partner.teams[0]: 20000000-0000-4000-8000-000000000001, now removed\n" +
				"keys rate_limit.classes.partner.tokens[0]: 00000000-0000-4000-8000-000000000009, now removed\n" +
				"limits class partner: partner (9 in 1s), now default (3 in 1s, 5000 in 1h)\n" +
				"limits team 20000000-0000-4000-8000-000000000001: partner (9 in 1s), now default (3 in 1s, 5000 in 1h)\n" +
				"limits token 00000000-0000-4000-8000-000000000009: partner (9 in 1s) or those of its team, now default (3 in 1s, 5000 in 1h) or those of its team\n"},
		{"a file that is refused", "listn: 1\n", 2, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			after := write(t, test.after)
			got := opsgate(t, nil, "diff", "--config", after, "--with", before)
			if want := strings.ReplaceAll(test.want, "AFTER", after); got.code != test.code || words(got.out) != want {
				t.Errorf("got %d\n%s\nwant %d\n%s\n%s", got.code, got.out, test.code, want, got.err)
			}
		})
	}
}

func TestDiffOfARunningGateway(t *testing.T) {
	g := serveGateway(t, `admin: {token: "${ADMIN_TOKEN}"}
rate_limit: {limits: [{requests: 100, per: 1h}, {requests: 50, per: 1s}]}
`)
	if got := g.opsgate(t, "diff"); got.code != 0 || got.out != "nothing changes\n" {
		t.Errorf("without a change: got %d\n%s%s", got.code, got.out, got.err)
	}
	for range 3 {
		if got := g.get(t, "/v1/me"); got != 200 {
			t.Fatalf("got %d", got)
		}
	}
	text, err := os.ReadFile(g.config)
	testkit.Must(t, err)
	lowered := write(t, strings.Replace(string(text), "{requests: 100, per: 1h}", "{requests: 2, per: 1h}, {requests: 3, per: 1m}", 1))
	got := opsgate(t, g.variables, "diff", "--config", lowered)
	want := `keys rate_limit.limits[0].requests: 100, now 2
keys rate_limit.limits[1].name: second, now minute
keys rate_limit.limits[1].requests: 50, now 3
keys rate_limit.limits[1].per: 1s, now 1m
keys rate_limit.limits[2].requests: now 50
keys rate_limit.limits[2].per: now 1s
limits by default: default (50 in 1s, 100 in 1h), now default (50 in 1s, 3 in 1m, 2 in 1h)
over token ` + tokenID + `: 3 used of 2 in 1h
usage unknown token ` + tokenID + `
`
	if got.code != 1 || words(got.out) != want || strings.Contains(got.out, adminToken) {
		t.Errorf("got %d\n%s\nwant\n%s\n%s", got.code, got.out, want, got.err)
	}
	blocking := write(t, strings.Replace(string(text), "{requests: 50, per: 1s}", "{requests: 0, per: 1m}", 1))
	if got := opsgate(t, g.variables, "diff", "--config", blocking); got.code != 1 || !strings.HasSuffix(words(got.out), "\nover token "+tokenID+": blocked\n") {
		t.Errorf("a limit that blocks: got %d\n%s", got.code, got.out)
	}
	shadow := write(t, strings.Replace(string(text), "{requests: 100, per: 1h}", "{requests: 3, per: 1h, shadow: true, name: trial}", 1))
	if got := opsgate(t, g.variables, "diff", "--config", shadow); got.code != 1 || strings.Contains(got.out, "over ") {
		t.Errorf("a shadow limit denies nothing: got %d\n%s", got.code, got.out)
	}
	if got := opsgate(t, append(g.variables, "OPSGATE_HTTP_MAX_IN_FLIGHT=5"), "diff", "--config", g.config); got.code != 0 {
		t.Errorf("a variable of the operator: got %d\n%s%s", got.code, got.out, got.err)
	}
	if got := opsgate(t, g.variables, "diff", "--config", lowered, "--admin", "127.0.0.1:1"); got.code != 2 {
		t.Errorf("without a gateway: got %d\n%s%s", got.code, got.out, got.err)
	}
}

// A gatewayOf serves the admin pages that diff reads, of a gateway with a configuration and a mode
// of its limiter. The usage of the third token is never returned.
func gatewayOf(t *testing.T, text string, mode ratelimit.Mode) (address string) {
	t.Helper()
	loaded, err := config.Load(config.Options{Path: write(t, text)})
	testkit.Must(t, err)
	serve := func(body any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("id") == tokenOf(3) {
				<-r.Context().Done()
				return
			}
			if limits, ok := body.(admin.TokenLimits); ok {
				limits.Token.TeamID = teamOf(1)
				if r.PathValue("id") == tokenOf(4) {
					limits.Token.TeamID, limits.Token.LimitClass = teamOf(2), "gold"
				}
				admin.Respond(w, http.StatusOK, limits)
				return
			}
			admin.Respond(w, http.StatusOK, body)
		}
	}
	remaining := 2
	mux := http.NewServeMux()
	mux.HandleFunc("/admin/config", serve(admin.Configuration{Values: loaded.Effective()}))
	mux.HandleFunc("/admin/limits", serve(admin.Busy{Tokens: []admin.BusyToken{
		{TokenIdentity: admin.TokenIdentity{TokenID: tokenOf(2), TeamID: teamOf(2)}},
		{TokenIdentity: admin.TokenIdentity{TokenID: tokenOf(4), TeamID: teamOf(2), LimitClass: "gold"}},
		{TokenIdentity: admin.TokenIdentity{TokenID: tokenOf(3), TokenName: "robot", TeamID: teamOf(1)}},
	}}))
	mux.HandleFunc("/admin/limits/{id}", serve(admin.TokenLimits{TokenState: admin.TokenState{
		Limits: []admin.Limit{{Requests: 9, Per: 1, Remaining: &remaining}}, Store: admin.Store{Mode: mode, Replicas: 2},
	}}))
	mux.HandleFunc("/admin/names", serve(map[string]string{tokenOf(1): "nightly", teamOf(1): "harbour"}))
	return "http://" + answering(t, mux.ServeHTTP)
}

func tokenOf(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }
func teamOf(n int) string  { return fmt.Sprintf("20000000-0000-4000-8000-%012d", n) }

// A token has the limits of its team, which precede those of a class. A token whose limits do not
// change is not read, and what was read is reported even if a later response does not arrive.
func TestDiffReportsWhatWasReadInTime(t *testing.T) {
	rates := func(partner, team int) string {
		text := fmt.Sprintf("rate_limit: {limits: [{requests: 99, per: 1s}], teams: {%s: {limits: [{requests: %d, per: 1s}]}}", teamOf(1), team)
		if partner > 0 {
			text += fmt.Sprintf(", classes: {partner: {limits: [{requests: %d, per: 1s}], tokens: [%s]}}", partner, tokenOf(1))
		}
		return good + text + "}\n"
	}
	address := gatewayOf(t, rates(9, 8), ratelimit.ModeShared)
	got := opsgate(t, nil, "diff", "--config", write(t, rates(0, 7)), "--admin", address, "--timeout", "1s")
	_, limits, _ := strings.Cut(words(got.out), "\nlimits ")
	want := `class partner: partner (9 in 1s), now default (99 in 1s)
limits team ` + teamOf(1) + ` (harbour): team (8 in 1s), now team (7 in 1s)
limits token ` + tokenOf(1) + ` (nightly): team (8 in 1s), now team (7 in 1s)
over token ` + tokenOf(1) + ` (nightly): 7 used of 7 in 1s
usage unread token ` + tokenOf(3) + ` (robot): ` + address + ` did not respond within 1s (--timeout)
`
	if got.code != 1 || limits != want {
		t.Errorf("got %d\n%s\nwant\n%s\n%s", got.code, limits, want, got.err)
	}
	got = opsgate(t, nil, "diff", "--config", write(t, rates(0, 7)), "--with", write(t, rates(9, 8)))
	if want := ": partner (9 in 1s) or those of its team, now default (99 in 1s) or those of its team\n"; !strings.Contains(got.out, want) {
		t.Errorf("there is no %q in %s", want, got.out)
	}
}

// The limits of a busy token follow the class that identity names.
func TestDiffOfAClassThatIdentityNames(t *testing.T) {
	file := func(requests int) string {
		return good + fmt.Sprintf("rate_limit: {classes: {gold: {limits: [{requests: %d, per: 1s}]}}}\n", requests)
	}
	got := opsgate(t, nil, "diff", "--config", write(t, file(7)), "--admin", gatewayOf(t, file(9), ratelimit.ModeShared))
	_, limits, _ := strings.Cut(words(got.out), "\nlimits ")
	if want := "class gold: gold (9 in 1s), now gold (7 in 1s)\nover token " + tokenOf(4) + ": 7 used of 7 in 1s\n"; got.code != 1 || limits != want {
		t.Errorf("got %d\n%s\nwant\n%s\n%s", got.code, limits, want, got.err)
	}
}

// Tokens that both files name are listed beside busy ones. Without Redis, what remains is the share
// of one gateway, which shows no usage.
func TestDiffOfTokensThatBothFilesName(t *testing.T) {
	file := func(requests int) string {
		return good + fmt.Sprintf("rate_limit: {classes: {partner: {limits: [{requests: %d, per: 1s}], tokens: [%s, %s, %s]}}}\n", requests, tokenOf(7), tokenOf(8), tokenOf(9))
	}
	lines := func(part, text string) (all string) {
		for n := 7; n <= 9; n++ {
			all += part + " token " + tokenOf(n) + text + "\n"
		}
		return all
	}
	for mode, usage := range map[ratelimit.Mode]string{
		ratelimit.ModeShared: lines("over", ": 7 used of 7 in 1s"),
		ratelimit.ModeLocal:  lines("usage unknown", ""),
	} {
		got := opsgate(t, nil, "diff", "--config", write(t, file(7)), "--admin", gatewayOf(t, file(9), mode))
		_, limits, _ := strings.Cut(words(got.out), "\nlimits ")
		if want := "limits class partner: partner (9 in 1s), now partner (7 in 1s)\n" + lines("limits", ": partner (9 in 1s), now partner (7 in 1s)") + usage; got.code != 1 || "limits "+limits != want {
			t.Errorf("%s: got %d\n%s\nwant\n%s\n%s", mode, got.code, limits, want, got.err)
		}
	}
}

// The secrets that a gateway has from variables apply to the file, whose admin listener needs one.
// The operator has the token in a file.
func TestDiffAppliesTheSecretsOfAGateway(t *testing.T) {
	file := write(t, strings.Replace(good, "admin: {listen: 127.0.0.1:0}", "admin: {listen: \"0.0.0.0:0\"}", 1))
	log, _ := serve(t, []string{"OPSGATE_ADMIN_TOKEN=" + adminToken, "OPSGATE_TRACING_HEADERS=a=b"}, "--config", file)
	_, port, err := net.SplitHostPort(fmt.Sprint(awaitLine(t, log, "serving")["admin_listen"]))
	testkit.Must(t, err)
	token := filepath.Join(t.TempDir(), "token")
	testkit.Must(t, os.WriteFile(token, []byte(adminToken+"\n"), 0o600))
	got := opsgate(t, nil, "diff", "--config", file, "--admin", "127.0.0.1:"+port, "--token-file", token)
	if got.code != 0 || got.out != "nothing changes\n" {
		t.Errorf("got %+v", got)
	}
}

// Exit code 1 means changes, so that a report that cannot be written has another.
func TestDiffThatCannotBeWritten(t *testing.T) {
	file := write(t, good)
	for _, flags := range [][]string{nil, {"--json"}} {
		e := command.Environment{Out: failingWriter{}, Err: io.Discard}
		if code := command.Run(t.Context(), append([]string{"diff", "--config", file, "--with", file}, flags...), e); code != 2 {
			t.Errorf("%v: exit code %d", flags, code)
		}
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no space left") }
