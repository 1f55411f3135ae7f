package command_test

import (
	"os"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
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
			"Changed keys:\n  listen: 127.0.0.1:0, now 127.0.0.1:1\n" +
				"Needs a restart:\n  AFTER:1: listen: a change needs a restart (opened at start)\n"},
		{"a team and a token leave a class", good, 1,
			"Changed keys:\n  rate_limit.classes.partner.limits[0].requests: 9, now removed\n" +
				"  rate_limit.classes.partner.limits[0].per: 1s, now removed\n" +
				"  rate_limit.classes.partner.teams[0]: 20000000-0000-4000-8000-000000000001, now removed\n  rate_limit.classes.partner.tokens[0]: 00000000-0000-4000-8000-000000000009, now removed\n" +
				"Other limits:\n  team 20000000-0000-4000-8000-000000000001: partner (9 in 1s), now default (3 in 1s, 5000 in 1h)\n" +
				"  token 00000000-0000-4000-8000-000000000009: partner (9 in 1s), now default (3 in 1s, 5000 in 1h)\n"},
		{"a file that is refused", "listn: 1\n", 2, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			after := write(t, test.after)
			got := opsgate(t, nil, "diff", "--config", after, "--with", before)
			if want := strings.ReplaceAll(test.want, "AFTER", after); got.code != test.code || got.out != want {
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
	want := `Changed keys:
  rate_limit.limits[0].requests: 100, now 2
  rate_limit.limits[1].name: second, now minute
  rate_limit.limits[1].requests: 50, now 3
  rate_limit.limits[1].per: 1s, now 1m
  rate_limit.limits[2].requests: now 50
  rate_limit.limits[2].per: now 1s
Other limits:
  by default: default (50 in 1s, 100 in 1h), now default (50 in 1s, 3 in 1m, 2 in 1h)
Already over their new limits:
  token ` + tokenID + `: 3 used of 2 in 1h
For 1 tokens, usage of a limit with a new length is not known.
`
	if got.code != 1 || got.out != want || strings.Contains(got.out, adminToken) {
		t.Errorf("got %d\n%s\nwant\n%s\n%s", got.code, got.out, want, got.err)
	}
	shadow := write(t, strings.Replace(string(text), "{requests: 100, per: 1h}", "{requests: 3, per: 1h, shadow: true, name: trial}", 1))
	if got := opsgate(t, g.variables, "diff", "--config", shadow); got.code != 1 || strings.Contains(got.out, "Already") {
		t.Errorf("a shadow limit denies nothing: got %d\n%s", got.code, got.out)
	}
	if got := opsgate(t, append(g.variables, "OPSGATE_HTTP_MAX_IN_FLIGHT=5"), "diff", "--config", g.config); got.code != 0 {
		t.Errorf("a variable of the operator: got %d\n%s%s", got.code, got.out, got.err)
	}
	if got := opsgate(t, g.variables, "diff", "--config", lowered, "--admin", "127.0.0.1:1"); got.code != 2 {
		t.Errorf("without a gateway: got %d\n%s%s", got.code, got.out, got.err)
	}
}
