package failover

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/ratelimit"
)

// flaky is a shared store without memory whose calls fail when it is told to.
type flaky struct {
	now func() time.Time
	err error
}

func (f *flaky) Exchange(
	_ context.Context, _ string, p *ratelimit.Policy, x ratelimit.Exchange,
) (ratelimit.Decision, ratelimit.Account, error) {
	a, _, d := p.Exchange(nil, x, f.now())
	return d, a, f.err
}

func (f *flaky) Refund(context.Context, string, *ratelimit.Policy, ratelimit.Decision) error {
	return f.err
}
func (f *flaky) Reset(context.Context, string) error { return f.err }
func (f *flaky) Ping(context.Context) error          { return f.err }

// Tokens are kept for as long as something counts: their account, or what this gateway admitted by itself.
func TestASweepDropsTokensWithoutUsage(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func() time.Time { return now }
	f := &flaky{now: clock}
	s, err := New(Options{Shared: f, Clock: clock, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	p, err := ratelimit.NewPolicy([]ratelimit.Limit{{Name: "minute", Requests: 100, Per: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(tokenID string) {
		t.Helper()
		if _, err := s.Decide(t.Context(), tokenID, p); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(after time.Duration, tokens int) {
		t.Helper()
		now = now.Add(after)
		s.sweep()
		n := 0
		for i := range s.shards {
			n += len(s.shards[i].tokens)
		}
		if n != tokens {
			t.Fatalf("%d tokens, not %d", n, tokens)
		}
	}
	ask("shared")
	if _, err := s.Peek(t.Context(), "peeked", p); err != nil {
		t.Fatal(err)
	}
	f.err = context.DeadlineExceeded
	ask("perhaps sent")
	f.err = &notSent{}
	ask("own")
	expect(30*time.Second, 3)
	ask("own")
	expect(32*time.Second, 1)
	expect(30*time.Second, 0)
}

// A notSent error is an answer of a Redis that refuses.
type notSent struct{}

func (*notSent) Error() string { return "OOM" }
func (*notSent) RedisError()   {}
