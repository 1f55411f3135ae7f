package command_test

import (
	"strings"
	"testing"

	"opsgate/cmd/internal/test/devtest"
)

// opsdev disturbs the API on purpose and scores the client: opsctl must pass whatever the seed, with real pauses.
func TestPassesTheRehearsal(t *testing.T) {
	for _, seed := range []string{"1", "7"} {
		t.Run("seed "+seed, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && seed != "1" {
				t.Skip("one seed is enough for every day")
			}
			s := startSystem(t, devtest.HighLimits, "--rehearse", "--seed", seed)
			u := s.as("full")
			u.realTime = true
			rehearse(t, u)
			code, report := s.Stop(), s.Out.String()
			if code != 0 || !strings.Contains(report, "Verdict: passed") {
				t.Errorf("opsdev ended with %d:\n%s", code, report)
			}
		})
	}
}

// rehearse runs commands for all operations.
func rehearse(t *testing.T, u user) {
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
	if all := ids("incidents", "list", "--all"); len(all) != 162 {
		t.Errorf("got %d incidents", len(all))
	}
	if all := ids("audit", "list", "--all"); len(all) < 300 {
		t.Errorf("got %d entries", len(all))
	}
}
