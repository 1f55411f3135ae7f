package failover_test

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

// A link is a gateway's connection to a shared store. It may be cut, and calls may wait in a queue
// before they are executed.
type link struct {
	*sharedStore

	queue func() time.Duration // waits of calls; nil for none
	cut   atomic.Bool
}

func (l *link) Exchange(
	ctx context.Context, tokenID string, p *ratelimit.Policy, x ratelimit.Exchange,
) (ratelimit.Decision, ratelimit.Account, error) {
	if l.cut.Load() {
		time.Sleep(callTimeout)
		l.recordLost(tokenID, x)
		return ratelimit.Decision{}, nil, context.DeadlineExceeded
	}
	if l.queue != nil {
		time.Sleep(l.queue())
		defer time.Sleep(time.Millisecond / 2)
	}
	return l.sharedStore.Exchange(ctx, tokenID, p, x)
}

func (l *link) Ping(ctx context.Context) error {
	if l.cut.Load() {
		time.Sleep(callTimeout)
		return context.DeadlineExceeded
	}
	return l.sharedStore.Ping(ctx)
}

// A client is denied, asks again, and waits for exactly as long as the last denial states, before,
// during and after outages.
func TestWaitsHoldThoughCallsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared()
		store := newStore(t, failover.Options{Shared: &link{sharedStore: s, queue: func() time.Duration {
			wait := time.Millisecond / 2 // of one in four calls, no more than this
			if rand.IntN(4) > 0 {
				wait += rand.N(40 * time.Millisecond)
			}
			return wait
		}}})
		t.Cleanup(run(t, store))
		p := ratelimittest.Policy(t, limit("second", 3, time.Second))
		waits, again := 0, 0
		for i := range 2000 {
			s.become([]condition{working, working, working, refusing}[i/10%4])
			d := decide(t, store, "t", p)
			for d.Allowed {
				d = decide(t, store, "t", p)
			}
			time.Sleep(rand.N(20 * time.Millisecond))
			if d = decide(t, store, "t", p); d.Allowed {
				continue
			}
			time.Sleep(d.RetryAfter)
			waits++
			if !decide(t, store, "t", p).Allowed {
				again++
			}
		}
		t.Logf("%d of %d waits were denied again", again, waits)
		if again > 0 || waits < 1500 {
			t.Errorf("%d of %d waits were denied again", again, waits)
		}
	})
}

func TestStepOfTheSharedClockIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared()
		step := 50 * time.Millisecond
		s.clock = func() time.Time { return time.Now().Add(step) }
		var log bytes.Buffer
		store := newStore(t, failover.Options{Shared: s, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		stop := run(t, store)
		p := ratelimittest.Policy(t, limit("second", 3, time.Second))
		for _, step = range []time.Duration{step, 2 * time.Second, 2 * time.Second, -time.Second} {
			decide(t, store, "t", p)
			time.Sleep(11 * time.Second)
		}
		stop()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "difference=2s before=0s") || !strings.Contains(lines[1], "difference=-1s before=2s") {
			t.Errorf("got\n%s", log.String())
		}
	})
}
