package failover_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

// A link is a gateway's connection to a shared store: calls wait in a queue for up to 40 ms before they are executed.
type link struct {
	*sharedStore

	random *rand.Rand
	cut    atomic.Bool
}

func (l *link) Exchange(
	ctx context.Context, tokenID string, p *ratelimit.Policy, x ratelimit.Exchange,
) (ratelimit.Decision, ratelimit.Account, error) {
	if l.cut.Load() {
		time.Sleep(callTimeout)
		return ratelimit.Decision{}, nil, context.DeadlineExceeded
	}
	time.Sleep(l.queue())
	d, a, err := l.sharedStore.Exchange(ctx, tokenID, p, x)
	time.Sleep(time.Millisecond / 2)
	return d, a, err
}

func (l *link) Ping(ctx context.Context) error {
	if l.cut.Load() {
		time.Sleep(callTimeout)
		return context.DeadlineExceeded
	}
	return l.sharedStore.Ping(ctx)
}

// queue returns the wait of the next call: of one in four calls, none but the time of the network.
func (l *link) queue() time.Duration {
	wait := time.Millisecond / 2
	if l.random.IntN(4) > 0 {
		wait += rand.N(40 * time.Millisecond)
	}
	return wait
}

func newLink(s *sharedStore) *link { return &link{sharedStore: s, random: rand.New(rand.NewPCG(1, 2))} }

// A client is denied, asks again, and waits for exactly as long as the last denial states, before, during and after outages.
func TestWaitsHoldThoughCallsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared()
		store := newStore(t, failover.Options{Shared: newLink(s)})
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

// A gateway that alone loses the shared store admits its share in addition to the limit of the others, and no more.
func TestPartitionedGatewayAdmitsItsShareInAddition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worst := 0
		p := ratelimittest.Policy(t, limit("second", 10, time.Second))
		for range 20 {
			s := newShared()
			links := []*link{newLink(s), newLink(s)}
			var stores []*failover.Store
			var stops []func()
			for _, l := range links {
				store := newStore(t, failover.Options{Shared: l, Settings: failover.Settings{Gateways: 2}})
				stores, stops = append(stores, store), append(stops, run(t, store))
			}
			var times []time.Time
			end := time.Now().Add(12 * time.Second)
			for i := 0; time.Now().Before(end); i++ {
				links[0].cut.Store(time.Until(end) < 8*time.Second && time.Until(end) > 4*time.Second)
				switch d := decide(t, stores[i%2], "t", p); {
				case !d.Allowed:
				case d.Local:
					times = append(times, time.Now())
				default:
					times = append(times, d.At)
				}
				time.Sleep(3 * time.Millisecond)
			}
			worst = max(worst, most(times, time.Second))
			for _, stop := range stops {
				stop()
			}
		}
		t.Logf("at most %d admitted in a second", worst)
		if worst > 15 {
			t.Errorf("%d admitted in a second, of a limit and a share of 15", worst)
		}
	})
}

// An overloadedLink is a connection whose calls wait too long to be sent, at random.
type overloadedLink struct{ *sharedStore }

func (l overloadedLink) Exchange(
	ctx context.Context, tokenID string, p *ratelimit.Policy, x ratelimit.Exchange,
) (ratelimit.Decision, ratelimit.Account, error) {
	if time.Sleep(rand.N(callTimeout)); rand.IntN(2) == 0 {
		return ratelimit.Decision{}, nil, errors.Join(ratelimit.ErrOtherCalls, ratelimit.ErrNotSent)
	}
	return l.sharedStore.Exchange(ctx, tokenID, p, x)
}

// Gateways whose calls are not sent, as too many wait, admit their shares in addition to the limit, and no more.
func TestOverloadedGatewaysAdmitTheirSharesInAddition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newShared(), ratelimittest.Policy(t, limit("second", 10, time.Second))
		var mu sync.Mutex
		var times []time.Time
		var all sync.WaitGroup
		end := time.Now().Add(time.Minute)
		for range 2 {
			store := newStore(t, failover.Options{Shared: overloadedLink{s}, Settings: failover.Settings{Gateways: 2}})
			for range 8 {
				all.Go(func() {
					for time.Now().Before(end) {
						if d := decide(t, store, "t", p); d.Allowed {
							mu.Lock()
							times = append(times, time.Now())
							mu.Unlock()
						}
						time.Sleep(rand.N(200 * time.Millisecond))
					}
				})
			}
		}
		all.Wait()
		n := most(times, time.Second)
		t.Logf("at most %d admitted in a second", n)
		if n > 20 {
			t.Errorf("%d admitted in a second, of a limit and two shares of 20", n)
		}
	})
}

// most returns the largest number of times within any interval of a length.
func most(times []time.Time, within time.Duration) (n int) {
	for i := range times {
		for i+n < len(times) && times[i+n].Sub(times[i]) < within {
			n++
		}
	}
	return n
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
