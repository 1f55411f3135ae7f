package command_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/test/devtest"
)

// opsdev disturbs the API on purpose and scores the client: opsctl must pass whatever the seed, with real pauses.
func TestPassesTheRehearsal(t *testing.T) {
	for _, seed := range []string{"1", "7"} {
		t.Run("seed "+seed, func(t *testing.T) {
			t.Parallel()
			if seed != "1" {
				testkit.SkipIfShort(t)
			}
			s := startSystem(t, devtest.HighLimits, "--rehearse", "--seed", seed)
			u := s.as("full")
			u.realTime = true
			for path, items := range rehearse(t, u) {
				response, err := http.PostForm(s.BaseURL+"/rehearsal", url.Values{"list": {path}, "items": {strconv.Itoa(items)}})
				testkit.Must(t, err)
				testkit.Must(t, response.Body.Close())
			}
			code, report := s.Stop(), s.Out.String()
			if code != 0 || !strings.Contains(report, "Verdict: passed") || !strings.Contains(report, "\npassed      restarts ") {
				t.Errorf("opsdev ended with %d:\n%s", code, report)
			}
		})
	}
}

// rehearse runs commands for all operations, and returns how many items the lists with cursors have.
func rehearse(t *testing.T, u user) map[string]int {
	t.Helper()
	ids := func(list ...string) []string { return strings.Fields(u.must(t, append(list, "-o", "id")...)) }
	u.must(t, "me")
	servers := ids("servers", "list")
	for _, id := range servers[:2] {
		u.must(t, "servers", "get", id)
		u.must(t, "servers", "metrics", id)
		u.must(t, "servers", "scheduled-commands", id)
		u.must(t, "servers", "commands", id, "--all")
	}
	ids("server-groups", "list")
	for _, id := range ids("monitors", "list")[:2] {
		u.must(t, "monitors", "checks", id)
	}
	for _, id := range ids("status-pages", "list") {
		u.must(t, "status-pages", "get", id)
		u.must(t, "status-pages", "incidents", id)
	}
	for _, title := range []string{"a", "b"} {
		incident := u.must(t, "incidents", "create", "--title", title, "--impact", "none", "--message", "b", "-o", "id")
		u.must(t, "incidents", "update", incident, "--status", "identified", "--message", title)
		u.must(t, "incidents", "resolve", incident)
		u.must(t, "incidents", "get", incident)
	}
	incidents, entries := ids("incidents", "list", "--all"), ids("audit", "list", "--all")
	if len(incidents) != 162 || len(entries) < 300 {
		t.Errorf("got %d incidents, %d entries", len(incidents), len(entries))
	}
	return map[string]int{"/v1/incidents": len(incidents), "/v1/audit": len(entries)}
}
