package chaostest

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// A story is a token's, in a real Redis, by a clock that is moved: it takes hours and is over in a second.
type story struct {
	*ratelimittest.Clock

	store  *redisstore.Store
	policy *ratelimit.Policy
}

// newStory begins one under the limits of the specification, part 8.
func newStory(t *testing.T) *story {
	t.Helper()
	server := redistest.Start(t)
	client, err := redisstore.NewClient(redisstore.ClientOptions{
		Addresses: []string{server.Addr()}, Timeout: maxWait, DialTimeout: maxWait, // a busy machine is not what is tested
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s := &story{Clock: ratelimittest.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
	s.store, err = redisstore.New(redisstore.Options{
		Client: client, Clock: s.Now, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.policy, err = ratelimit.NewPolicy([]ratelimit.Limit{
		{Name: "second", Requests: 3, Per: time.Second}, {Name: "hour", Requests: 5000, Per: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *story) request(t *testing.T) ratelimit.Decision {
	t.Helper()
	d, err := s.store.Decide(t.Context(), "token", s.policy)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The token first spends its hour evenly, and from then on as fast as it may. So it meets the limit of the second many times, then that of
// the hour, and again, as what it spent a minute at a time comes back a minute at a time.
func TestWhoWaitsAsToldIsNotRefusedAgain(t *testing.T) {
	const waits = 2000
	s := newStory(t)
	for range 4900 {
		if !s.request(t).Allowed {
			t.Fatal("refused at three in two seconds")
		}
		s.Advance(700 * time.Millisecond)
	}
	var by [2]int // limit
	again := 0
	for by[0]+by[1] < waits {
		d := s.request(t)
		if d.Allowed {
			s.Advance(10 * time.Millisecond)
			continue
		}
		by[d.Denied]++
		s.Advance((d.RetryAfter + time.Second - 1).Truncate(time.Second)) // retry-after is in whole seconds
		if !s.request(t).Allowed {
			again++
		}
	}
	expectNone(t, "2", fmt.Sprintf("refused again after %d waits for the second and %d for the hour", by[0], by[1]), again)
	if by[0] < 50 || by[1] < 50 {
		t.Error("one of the limits hardly refused anything")
	}
}

func TestAFlatRateGetsTheWholeHour(t *testing.T) {
	const apart = 334 * time.Millisecond // three a second, as near as a strict window of three allows
	s := newStory(t)
	var admitted []time.Time
	before := -1
	for range either(2*time.Hour, 65*time.Minute) / apart {
		switch d := s.request(t); {
		case d.Allowed:
			admitted = append(admitted, d.At)
		case d.Denied == 1 && before < 0:
			before = len(admitted)
		}
		s.Advance(apart)
	}
	report(t, "3", "admitted before the first refusal by the hour", before, 5000)
	if before != 5000 {
		t.Errorf("%d admitted before the first refusal by the hour", before)
	}
	atMost(t, "3", fmt.Sprintf("admitted in any hour, of %d in all", len(admitted)), maxIn(admitted, time.Hour), 5000)
}

func TestRefusalsSpendNothing(t *testing.T) {
	const refusals = 10_000
	s := newStory(t)
	admitted, wrong := 0, 0
	for refused := 0; refused < refusals; {
		d := s.request(t)
		if d.Allowed {
			admitted++
		} else {
			refused++
		}
		if d.Budgets[1].Remaining != 5000-admitted {
			wrong++
		}
		s.Advance(time.Millisecond)
	}
	expectNone(t, "4", fmt.Sprintf("answers that took a refusal from what is left, among %d refusals and %d admissions", refusals, admitted), wrong)
}
