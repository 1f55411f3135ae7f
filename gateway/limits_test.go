package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/ratelimit"
)

func TestLimitsAreToldAndEnforced(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func() time.Time { return now }
	h := start(t, func(o *Options) {
		o.Clock = clock
		o.Limiter = ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: clock})
		o.Policies = policies(t, ratelimit.Limit{Name: "second", Requests: 3, Per: time.Second}, ratelimit.Limit{Name: "hour", Requests: 5000, Per: time.Hour})
	})
	for i := range 3 {
		got := h.get(t, "/v1/me").mustBe(t, 200)
		if p := got.Header.Get("RateLimit-Policy"); p != `"second";q=3;w=1, "hour";q=5000;w=3600` {
			t.Errorf("RateLimit-Policy = %q", p)
		}
		want := fmt.Sprintf(`"second";r=%d;t=1, "hour";r=%d;`, 2-i, 4999-i)
		if r := got.Header.Get("RateLimit"); !strings.HasPrefix(r, want) {
			t.Errorf("RateLimit = %q, want %s…", r, want)
		}
	}
	refused := h.get(t, "/v1/nothing")
	refused.mustFail(t, 429, "rate_limited")
	if !strings.Contains(refused.body, "3 requests per second") || refused.Header.Get("Retry-After") != "1" {
		t.Errorf("%s, Retry-After %q", refused.body, refused.Header.Get("Retry-After"))
	}
	if h.do(t, "", "GET", "/v1/me", "").Header.Get("RateLimit") != "" {
		t.Error("an unknown caller is told of budgets")
	}
	now = now.Add(time.Second)
	h.get(t, "/v1/nothing").mustFail(t, 404, "not_found")
}

func TestAFailureOfOursIsGivenBack(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func() time.Time { return now }
	h := start(t, func(o *Options) {
		o.Clock = clock
		o.Limiter = ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: clock})
		o.Policies = policies(t, ratelimit.Limit{Name: "second", Requests: 1, Per: time.Second})
	})
	h.services.fail("ListServers", status.Error(codes.Unavailable, "away"))
	for range 3 {
		h.get(t, "/v1/servers").mustFail(t, 503, "unavailable")
	}
	h.get(t, "/v1/servers/x").mustFail(t, 404, "not_found") // the client's own mistake costs
	h.get(t, "/v1/servers").mustFail(t, 429, "rate_limited")
}

// brokenLimiter is a store that cannot tell.
type brokenLimiter struct{ Limiter }

func (brokenLimiter) Decide(context.Context, string, *ratelimit.Policy) (ratelimit.Decision, error) {
	return ratelimit.Decision{}, fmt.Errorf("connection refused")
}

func TestALimiterThatCannotTell(t *testing.T) {
	h := start(t, func(o *Options) { o.Limiter = brokenLimiter{} })
	got := h.get(t, "/v1/me")
	got.mustFail(t, 503, "unavailable")
	if got.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}
