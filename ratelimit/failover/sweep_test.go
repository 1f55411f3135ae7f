package failover

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit"
)

// A statelessStore is a shared store without accounts, whose calls return an error.
type statelessStore struct {
	now func() time.Time
	err error
}

func (f *statelessStore) Exchange(
	_ context.Context, _ string, p *ratelimit.Policy, x ratelimit.Exchange,
) (ratelimit.Decision, ratelimit.Account, error) {
	a, _, d := p.ExecuteExchange(nil, x, f.now())
	return d, a, f.err
}

func (f *statelessStore) Refund(context.Context, string, ratelimit.Decision) error {
	return f.err
}
func (f *statelessStore) Reset(context.Context, string) error { return f.err }
func (f *statelessStore) Ping(context.Context) error          { return f.err }

// A token has usage while its account or a local admission counts.
func TestSweepDropsTokensWithoutUsage(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func() time.Time { return now }
	f := &statelessStore{now: clock}
	s, err := New(Options{Shared: f, Clock: clock, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	testkit.Must(t, err)
	p, err := ratelimit.NewPolicy([]ratelimit.Limit{{Name: "minute", Requests: 100, Per: time.Minute}})
	testkit.Must(t, err)
	request := func(tokenID string) {
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
	request("shared")
	if _, err := s.Peek(t.Context(), "peeked", p); err != nil {
		t.Fatal(err)
	}
	f.err = context.DeadlineExceeded
	request("unanswered")
	f.err = &refusedError{}
	request("own")
	expect(30*time.Second, 3)
	request("own")
	expect(32*time.Second, 1)
	expect(30*time.Second, 0)
}

// A refusedError is an error that Redis returned.
type refusedError struct{}

func (*refusedError) Error() string { return "OOM" }
func (*refusedError) RedisError()   {}
