package failover

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/ratelimit"
)

// flaky is a shared store in memory whose connections break when it is told to.
type flaky struct {
	*ratelimit.Memory

	err error
}

func (f *flaky) Decide(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	if f.err != nil {
		return ratelimit.Decision{}, f.err
	}
	return f.Memory.Decide(ctx, tokenID, p)
}

func (f *flaky) Settle(context.Context, string, *ratelimit.Policy, []ratelimit.Spending, []ratelimit.Spending) error {
	return f.err
}

func (f *flaky) Ping(context.Context) error { return f.err }

// Once every token is settled or at rest, requests go the short way again, and nothing is remembered of tokens.
func TestASweepEndsTheDoubt(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func() time.Time { return now }
	shared := &flaky{Memory: ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: clock})}
	s, err := New(Options{Shared: shared, Clock: clock, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
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
	expect := func(want way, tokens int) {
		t.Helper()
		s.Sweep()
		n := 0
		s.tokens.each(func(string, *token) bool { n++; return true })
		if got := s.phase.Load().way; got != want || n != tokens {
			t.Fatalf("way %d with %d tokens, not %d with %d", got, n, want, tokens)
		}
	}
	ask("one")
	ask("two")
	expect(certain, 0)
	shared.err = context.DeadlineExceeded
	ask("one")
	expect(owing, 1)
	shared.err = nil
	ask("one")
	expect(certain, 0)

	shared.err = io.EOF
	ask("one")
	shared.err = nil
	expect(doubtful, 1)
	ask("one")
	ask("three")
	expect(doubtful, 2)
	ask("two")
	expect(certain, 3)
	expect(certain, 0)

	shared.err = io.EOF
	ask("one")
	shared.err = nil
	now = now.Add(2 * time.Minute)
	expect(certain, 0)
}
