package gateway

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"opsgate/authn"
	"opsgate/internal/testkit"
	"opsgate/ratelimit"
)

// defaultLimits returns the default limits (docs/integrate/contract.md, "Rate limits").
func defaultLimits() []ratelimit.Limit {
	return []ratelimit.Limit{{Name: "second", Requests: 3, Per: time.Second}, {Name: "hour", Requests: 5000, Per: time.Hour}}
}

// limitedModel returns a gateway with limits, for requests without connections.
func limitedModel(tb testing.TB, limits []ratelimit.Limit, change ...func(*Options)) *Gateway {
	tb.Helper()
	return newModelled(tb, &model{}, append([]func(*Options){func(o *Options) { o.Policies = policies(tb, limits...) }}, change...)...)
}

// request sends a request, and returns its status and Retry-After.
func request(tb testing.TB, g *Gateway) (int, time.Duration) {
	tb.Helper()
	w := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(tb.Context(), http.MethodGet, "/v1/me", http.NoBody)
	req.Header.Set("Authorization", "Bearer "+password)
	g.ServeHTTP(w, req)
	if w.Code == http.StatusOK {
		return w.Code, 0
	}
	seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
	if err != nil {
		tb.Error(err)
	}
	return w.Code, time.Duration(seconds) * time.Second
}

// A clientGroup is a number of clients with the same token. Each obeys Retry-After, and sends its
// next request when the last one was admitted.
type clientGroup struct {
	clients, requests int
	spread            time.Duration // of random starts; 0 if all start at once
}

// run returns the time that the group needs, in units of the ideal time, and the denials for each
// request.
func (c clientGroup) run(t *testing.T, seed uint64) (took, denials float64) {
	t.Helper()
	const rate = 3
	synctest.Test(t, func(t *testing.T) {
		g := limitedModel(t, defaultLimits(), func(o *Options) { o.RetrySpread = NewRetrySpread(oneGateway) })
		var denied atomic.Int64
		var wg sync.WaitGroup
		began := time.Now()
		for client := range c.clients {
			random := rand.New(rand.NewPCG(seed, uint64(client)))
			wg.Go(func() {
				time.Sleep(time.Duration(random.Float64() * float64(c.spread)))
				for left := c.requests; left > 0; {
					time.Sleep(time.Duration(random.Float64() * float64(3*time.Millisecond))) // network latency
					if status, wait := request(t, g); status == http.StatusOK {
						left--
					} else {
						denied.Add(1)
						time.Sleep(wait)
					}
				}
			})
		}
		wg.Wait()
		all := float64(c.clients * c.requests)
		took = time.Since(began).Seconds() / (all / rate)
		denials = float64(denied.Load()) / all
	})
	return took, denials
}

// With 60 clients, 2 denials per request are impossible: the last clients are admitted after 19 s
// and no wait is longer than 5 s, which makes 2.3 on average.
func TestObedientClientsUseTheWholeRate(t *testing.T) {
	for _, c := range []struct {
		clientGroup

		took, denials float64 // maxima
	}{
		{clientGroup{clients: 20, requests: 3}, 1.3, 2},
		{clientGroup{clients: 20, requests: 3, spread: 5 * time.Second}, 1.3, 2},
		{clientGroup{clients: 5, requests: 3}, 1.3, 2},
		{clientGroup{clients: 5, requests: 3, spread: time.Second}, 1.3, 2},
		{clientGroup{clients: 60, requests: 1}, 1.3, 3.2},
		{clientGroup{clients: 60, requests: 1, spread: 5 * time.Second}, 1.3, 3.2},
	} {
		t.Run(fmt.Sprint(c.clients, "x", c.requests, " ", c.spread), func(t *testing.T) {
			var took, denials, mostTook, mostDenials float64
			const runs = 20
			for seed := range uint64(runs) {
				x, n := c.run(t, seed)
				took, denials = took+x/runs, denials+n/runs
				mostTook, mostDenials = max(mostTook, x), max(mostDenials, n)
			}
			t.Logf("%.2f of the ideal time, at most %.2f; %.2f denials a request, at most %.2f", took, mostTook, denials, mostDenials)
			if mostTook > c.took || mostDenials > c.denials {
				t.Errorf("bounds: %.2f, %.2f", c.took, c.denials)
			}
		})
	}
}

// waits returns the waits, in seconds, of n clients that are denied at the same time.
func waits(s *RetrySpread, now time.Time, tokenID string, l ratelimit.Limit, retryAfter time.Duration, n int) (seconds []int) {
	for range n {
		seconds = append(seconds, int(s.retryAfter(now, tokenID, l, retryAfter)/time.Second))
	}
	return seconds
}

func mustWait(t *testing.T, want, got []int) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestClientsDeniedTogetherAreSpreadAtTheRateOfTheLimit(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	for name, c := range map[string]struct {
		gateways   int
		limit      ratelimit.Limit
		retryAfter time.Duration
		want       []int
	}{
		"3 a second":                       {1, ratelimit.Limit{Requests: 3, Per: time.Second}, time.Second / 3, []int{1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5}},
		"3 a second, of two gateways":      {2, ratelimit.Limit{Requests: 3, Per: time.Second}, time.Second / 3, []int{1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5}},
		"unknown number of gateways":       {0, ratelimit.Limit{Requests: 1, Per: time.Second}, time.Second, []int{1, 1, 2, 3, 3, 4, 5, 5}},
		"slower than one in the spread":    {1, ratelimit.Limit{Requests: 10, Per: time.Minute}, time.Minute, []int{60, 64, 64, 64}},
		"blocked":                          {1, ratelimit.Limit{Per: time.Minute}, time.Minute, []int{60, 60, 60}},
		"no wait, after a change of limit": {1, ratelimit.Limit{Requests: 1, Per: time.Second}, 0, []int{1, 1, 2}},
		"negative wait, by another clock":  {1, ratelimit.Limit{Requests: 1, Per: time.Second}, -time.Hour, []int{1, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewRetrySpread(func() int { return c.gateways })
			mustWait(t, c.want, waits(s, now, tokenID, c.limit, c.retryAfter, len(c.want)))
			mustWait(t, c.want[:1], waits(s, now, otherID, c.limit, c.retryAfter, 1))
		})
	}
}

// Tokens above the capacity replace each other, and never count each other's clients.
func TestTokensAreSpreadApart(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	limit := ratelimit.Limit{Requests: 1, Per: time.Hour}
	s := NewRetrySpread(oneGateway)
	for i := range 4 * tokenSets * tokensPerSet {
		id := fmt.Sprint("token-", i)
		mustWait(t, []int{1, 5}, waits(s, now, id, limit, time.Second, 2))
	}
}

func TestSpreadingDoesNotAllocate(t *testing.T) {
	s := NewRetrySpread(oneGateway)
	limit := ratelimit.Limit{Requests: 3, Per: time.Second}
	now, i := time.Now(), 0
	ids := [...]string{tokenID, otherID, someID}
	if n := testing.AllocsPerRun(1000, func() {
		now, i = now.Add(100*time.Millisecond), i+1
		s.retryAfter(now, ids[i%len(ids)], limit, time.Second)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Retry-After is spread; RateLimit and explanations are not. A reload keeps the counts.
func TestOnlyRetryAfterIsSpread(t *testing.T) {
	h, _ := limited(t, []ratelimit.Limit{{Name: "second", Requests: 1, Per: time.Second}}, func(o *Options) { o.RetrySpread = NewRetrySpread(oneGateway) })
	h.get(t, "/v1/me").mustBe(t, 200)
	for i, want := range []string{"1", "1", "2", "3", "3", "4", "5", "5"} {
		if i == 3 {
			o := optionsWith(t, h.services)
			o.RetrySpread, o.Limiter, o.Policies, o.Clock = h.gateway.options.RetrySpread, h.gateway.options.Limiter, h.gateway.options.Policies, h.gateway.options.Clock
			next, err := New(o)
			testkit.Must(t, err)
			h.Config.Handler = next
		}
		got := h.get(t, "/v1/me").mustBe(t, 429)
		mustHaveHeader(t, got.Header, "RateLimit", budgetOf("second", 0, 1))
		if got.Header.Get("Retry-After") != want {
			t.Errorf("denial %d: Retry-After %s, want %s", i, got.Header.Get("Retry-After"), want)
		}
	}
	p := h.gateway.options.Policies.All()[0]
	d, err := h.gateway.options.Limiter.(*ratelimit.Memory).Peek(t.Context(), tokenID, p.Policy)
	testkit.Must(t, err)
	e := h.gateway.Explain(ExplainRequest{Path: "/v1/me", Principal: &authn.Principal{TokenID: tokenID, TeamID: teamID, AIPlan: true}, Decision: &d})
	if e.Answer.Status != 429 || e.Answer.RetryAfter != 1 {
		t.Errorf("explained: %d, retry after %d s", e.Answer.Status, e.Answer.RetryAfter)
	}
}

// After any denials: a wait is between the shortest sufficient one and 4 s more. It is the shortest
// for the first denied client, and it is sufficient for a client that is alone.
func TestWaitsAreSufficientAndLimited(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 999).Draw(rt, "ms")) * time.Millisecond)
		clock := func() time.Time { return now }
		store := ratelimit.NewMemory(clock)
		gateways := rapid.IntRange(0, 5).Draw(rt, "gateways")
		limits := []ratelimit.Limit{
			{Name: "short", Requests: rapid.IntRange(1, 10).Draw(rt, "short"), Per: time.Second},
			{Name: "long", Requests: rapid.IntRange(1, 200).Draw(rt, "long"), Per: time.Duration(rapid.IntRange(2, 60).Draw(rt, "per")) * time.Second},
		}
		g := limitedModel(t, limits, func(o *Options) {
			o.Clock, o.Limiter, o.RetrySpread = clock, store, NewRetrySpread(func() int { return gateways })
		})
		var allReturned time.Time // when all denied clients have returned
		for range rapid.IntRange(1, 60).Draw(rt, "requests") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, 20, 300, 7000}).Draw(rt, "ms later")) * time.Millisecond)
			before, err := store.Peek(t.Context(), tokenID, g.options.Policies.All()[0].Policy)
			testkit.Must(rt, err)
			status, wait := request(t, g)
			if status == http.StatusOK {
				continue
			}
			shortest := time.Duration(max(1, wholeSeconds(before.RetryAfter))) * time.Second
			if wait < shortest || wait > shortest+4*time.Second || now.After(allReturned) && wait != shortest {
				rt.Fatalf("Retry-After %v; %v is sufficient", wait, shortest)
			}
			allReturned = now.Add(before.RetryAfter + 6*time.Second)
			if rapid.IntRange(0, 4).Draw(rt, "obeys") == 0 {
				now = now.Add(wait)
				if status, _ := request(t, g); status != http.StatusOK {
					rt.Fatalf("denied again after %v", wait)
				}
			}
		}
	})
}

func oneGateway() int { return 1 }
