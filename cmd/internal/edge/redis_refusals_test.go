package edge_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/admin"
	"opsgate/ratelimit/redisstore/redistest"
)

// redisReason returns why Redis is not in use, on the readiness page.
func (r *reloading) redisReason(t *testing.T) string {
	t.Helper()
	var body struct{ Dependencies map[string]admin.Dependency }
	if err := json.Unmarshal([]byte(r.get(t, r.AdminAddress(), "/readyz").body), &body); err != nil {
		t.Fatal(err)
	}
	return body.Dependencies["redis"].Reason
}

// A Redis that answers and refuses is not in use, for a reason that an operator can act on, and since one time: it does not come and go
// with probes that it happens to answer.
func TestRedisThatReturnsErrorsIsNotInUse(t *testing.T) {
	const secret = "correct-horse-battery"
	full := strings.Repeat("x", 2<<20)
	for name, test := range map[string]struct {
		refuse, heal [][]any
		reason       string
		flaps        bool // probes pass, as they use keys of their own
		watched      time.Duration
	}{
		"out of memory": {
			refuse: [][]any{{"SET", "other", full}, {"CONFIG", "SET", "maxmemory-policy", "noeviction"}, {"CONFIG", "SET", "maxmemory", "1mb"}},
			heal:   [][]any{{"CONFIG", "SET", "maxmemory", "0"}},
			reason: "Redis is out of memory", watched: time.Second,
		},
		"a read-only replica": {
			refuse: [][]any{{"REPLICAOF", "127.0.0.1", "1"}},
			heal:   [][]any{{"REPLICAOF", "NO", "ONE"}},
			reason: "Redis is a read-only replica", watched: time.Second,
		},
		"a password": { // connections that there are stay logged in, so they are cut
			refuse: [][]any{{"CONFIG", "SET", "requirepass", secret}, {"CLIENT", "KILL", "TYPE", "normal"}, {"CLIENT", "KILL", "TYPE", "pubsub"}},
			heal:   [][]any{{"CONFIG", "SET", "requirepass", ""}},
			reason: "Redis asks for a password", watched: time.Second,
		},
		"accounts that may not be written": {
			refuse: [][]any{{"ACL", "SETUSER", "default", "resetkeys", "~opsgate:ping*", "~opsgate:replicas"}},
			heal:   [][]any{{"ACL", "SETUSER", "default", "~*"}},
			reason: "Redis' ACL does not permit", flaps: true,
			watched: 4 * time.Second, // longer than tokens take to return to a Redis that is back
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			r := reloadingGateway(t, startServices(t), inRedis(server.Addr(), 1_000_000, ""))
			r.mustAdmit(t, 1_000_000)
			do := func(commands [][]any) {
				t.Helper()
				for _, command := range commands {
					if err := server.Client().Do(t.Context(), command...).Err(); err != nil {
						t.Fatal(command[:2], err)
					}
				}
			}
			do(test.refuse)
			eventually(t, "the reason is told", func() bool {
				if got := r.get(t, r.Address(), "/v1/servers"); got.status != 200 {
					t.Errorf("got %+v", got)
				}
				return strings.Contains(r.redisReason(t), test.reason)
			})
			since := *r.store(t).Since
			for began := time.Now(); time.Since(began) < test.watched; {
				r.get(t, r.Address(), "/v1/servers")
				if store := r.store(t); store.Mode != "local" && !test.flaps || store.Mode == "local" && !store.Since.Equal(since) {
					t.Fatalf("after %v: %+v, away since %v", time.Since(began), store, since)
				}
			}
			if reason := r.redisReason(t); !test.flaps && !strings.Contains(reason, test.reason) || strings.Contains(reason, secret) {
				t.Errorf("got %q", reason)
			}
			do(test.heal)
			eventually(t, "Redis is used again", func() bool {
				_, state := r.redis(t)
				return state == "ready"
			})
			r.finish(t)
		})
	}
}
