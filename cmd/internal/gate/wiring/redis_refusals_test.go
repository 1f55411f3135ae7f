package wiring_test

import (
	"strings"
	"testing"
	"time"

	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

// A Redis that answers with errors is not in use. The readiness page has a reason that operators
// can act on, and one start time, even if Redis answers some of the probes.
func TestRedisThatReturnsErrorsIsNotInUse(t *testing.T) {
	full := strings.Repeat("x", 2<<20)
	for name, test := range map[string]struct {
		refuse, heal [][]any
		reason       string
		flaps        bool // probes succeed, because they use other keys
		watched      time.Duration
	}{
		"out of memory": {
			refuse: [][]any{{"SET", "other", full}, {"CONFIG", "SET", "maxmemory-policy", "noeviction"}, {"CONFIG", "SET", "maxmemory", "1mb"}},
			heal:   [][]any{{"CONFIG", "SET", "maxmemory", "0"}},
			reason: "Redis is out of memory", watched: time.Second,
		},
		"no permission to write accounts": {
			refuse: [][]any{{"ACL", "SETUSER", "default", "resetkeys", "~opsgate:ping*", "~opsgate:replicas"}},
			heal:   [][]any{{"ACL", "SETUSER", "default", "~*"}},
			reason: "the ACL of Redis denies", flaps: true,
			watched: 4 * time.Second, // longer than a recovery takes
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			r := start(t, inRedis(server.Addr(), 1_000_000, ""))
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
			var since time.Time
			testkit.Eventually(t, "the readiness page has the reason", func() bool {
				r.mustGet(t, "/v1/servers", 200)
				reason, store := r.redis(t).Reason, r.store(t)
				if store.Mode != "local" { // Redis answered in between
					return false
				}
				since = *store.Since
				return strings.Contains(reason, test.reason)
			})
			for began := time.Now(); time.Since(began) < test.watched; {
				r.get(t, r.Address(), "/v1/servers")
				if store := r.store(t); store.Mode != "local" && !test.flaps || store.Mode == "local" && !store.Since.Equal(since) {
					t.Fatalf("after %v: %+v, not in use since %v", time.Since(began), store, since)
				}
			}
			if reason := r.redis(t).Reason; !test.flaps && !strings.Contains(reason, test.reason) {
				t.Errorf("got %q", reason)
			}
			do(test.heal)
			testkit.Eventually(t, "Redis is used again", func() bool { return r.redis(t).State == "ready" })
		})
	}
}

// A gateway that cannot reach Redis denies all requests with on_store_failure: deny. Balancers then
// send them to the other gateways.
func TestGatewayThatDeniesAllRequestsIsNotReady(t *testing.T) {
	server := redistest.Start(t)
	r := start(t, inRedis(server.Addr(), 1_000_000, "  on_store_failure: deny\n"))
	if got := r.readiness(t, "ready"); got.status != 200 {
		t.Errorf("got %+v", got)
	}
	server.Kill()
	testkit.Eventually(t, "requests have met the outage", func() bool {
		r.get(t, r.Address(), "/v1/servers")
		return r.store(t).Mode == "deny"
	})
	got := r.readiness(t, "not_ready")
	if got.status != 503 || !strings.Contains(got.body, `"state":"unavailable, limits are deny","reason":"not in use for `) {
		t.Errorf("got %+v", got)
	}
	r.mustGet(t, "/v1/servers", 503)
	x := r.explain(t, "GET", "/v1/servers")
	if a, l := x.Answer, x.Limits[0]; a.Status != 503 || a.Code != "unavailable" || a.RetryAfter < 1 || a.FailedCheck != "limits" ||
		l.Remaining != nil || l.Reset != nil || l.Requests != 1_000_000 || x.Store.Error == "" {
		t.Errorf("explained as %+v, %+v", x.Answer, x.TokenState)
	}
	server.Restart()
	if got := r.readiness(t, "ready"); got.status != 200 {
		t.Errorf("got %+v", got)
	}
}
