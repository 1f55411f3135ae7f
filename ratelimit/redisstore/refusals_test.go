package redisstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// running returns a store that hears of refunds by others.
func running(t *testing.T, o redisstore.Options) *redisstore.Store {
	t.Helper()
	s := newStore(t, o)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

func decide(t testing.TB, s ratelimit.Store, token string, p *ratelimit.Policy) ratelimit.Decision {
	t.Helper()
	d, err := s.Decide(t.Context(), token, p)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func hourly(t testing.TB, n int) *ratelimit.Policy {
	t.Helper()
	return ratelimittest.Policy(t, limit("hour", n, time.Hour))
}

// A refusal is repeated, and counted down, without asking Redis; and not for another policy.
func TestARefusalIsRepeated(t *testing.T) {
	server := redistest.Start(t)
	c := newClock()
	s := newStore(t, redisstore.Options{Client: newClient(t, redisstore.ClientOptions{Addresses: []string{server.Addr()}}), Clock: c.Now})
	p := ratelimittest.Policy(t, limit("second", 1, time.Second))
	decide(t, s, "t", p)
	c.Advance(100 * time.Millisecond)
	first := decide(t, s, "t", p)
	server.Kill()
	c.Advance(300 * time.Millisecond)
	d := decide(t, s, "t", p)
	if first.Cached || !d.Cached || d.Allowed || d.Denied != 0 || d.RetryAfter != 600*time.Millisecond || d.Budgets[0].Reset != d.RetryAfter || !d.At.Equal(c.Now()) {
		t.Errorf("first %+v, then %+v", first, d)
	}
	if d, err := s.Decide(t.Context(), "t", ratelimittest.Policy(t, limit("second", 2, time.Second))); err == nil {
		t.Errorf("another policy: %+v", d)
	}
	c.Advance(600 * time.Millisecond)
	if d, err := s.Decide(t.Context(), "t", p); err == nil {
		t.Errorf("it has run out: %+v", d)
	}
}

// Where a gateway does not hear of what others give back, it believes a refusal for no longer than a second.
func TestARefusalThatMayBeOutOfDateIsNotBelieved(t *testing.T) {
	server := redistest.Start(t)
	c := newClock()
	client := newClient(t, redisstore.ClientOptions{Addresses: []string{server.Addr()}})
	s, other := newStore(t, redisstore.Options{Client: client, Clock: c.Now}), newStore(t, redisstore.Options{Client: client, Clock: c.Now})
	p := hourly(t, 1)
	admitted := decide(t, other, "t", p)
	decide(t, s, "t", p)
	if err := other.Refund(t.Context(), "t", p, admitted); err != nil {
		t.Fatal(err)
	}
	c.Advance(time.Second)
	if d := decide(t, s, "t", p); !d.Cached {
		t.Errorf("within the second: %+v", d)
	}
	c.Advance(time.Microsecond)
	if d := decide(t, s, "t", p); !d.Allowed {
		t.Errorf("after it: %+v", d)
	}
}

// What one gateway gives back or resets frees a token that another one refuses by itself. So it does after Redis was away.
func TestARefundFreesTheTokenElsewhere(t *testing.T) {
	server := redistest.Start(t)
	o := redisstore.ClientOptions{Addresses: []string{server.Addr()}}
	here, there := running(t, redisstore.Options{Client: newClient(t, o)}), running(t, redisstore.Options{Client: newClient(t, o)})
	p := hourly(t, 1)
	for round := range 2 {
		joined(t, here, p)
		admitted := decide(t, there, "t", p)
		if d := decide(t, here, "t", p); !admitted.Allowed || d.Allowed {
			t.Fatalf("one an hour: %+v, %+v", admitted, d)
		}
		if err := there.Refund(t.Context(), "t", p, admitted); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the refund is heard of", func() bool { return decide(t, here, "t", p).Allowed })

		decide(t, here, "t", p)
		if err := there.Reset(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the reset is heard of", func() bool { return decide(t, here, "t", p).Allowed })
		if round == 0 {
			server.Restart()
		}
	}
}

// joined waits until the store believes refusals for longer than a second, which it does when it hears of refunds.
func joined(t *testing.T, s *redisstore.Store, p *ratelimit.Policy) {
	t.Helper()
	eventually(t, "refusals are kept", func() bool {
		_, _ = s.Decide(t.Context(), "probe", p)
		d, err := s.Decide(t.Context(), "probe", p)
		return err == nil && d.Cached
	})
	refused := decide(t, s, "probe", p)
	eventually(t, "they are kept for more than a second", func() bool {
		d := decide(t, s, "probe", p)
		if !d.Cached {
			refused = d
		}
		return d.At.Sub(refused.At) > 1100*time.Millisecond
	})
}

// lines is a log that hands over its messages.
type lines chan string

// Write implements [io.Writer].
func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// A subscription that ends or hangs is noticed, and made anew.
func TestASilentSubscriptionIsNotTrusted(t *testing.T) {
	server := redistest.Start(t)
	client := newClient(t, redisstore.ClientOptions{Addresses: []string{server.Addr()}, Timeout: 500 * time.Millisecond})
	metrics, log := prometheus.NewRegistry(), make(lines, 100)
	running(t, redisstore.Options{Client: client, Registerer: metrics, Logger: slog.New(slog.NewTextHandler(log, nil))})
	followed := func(want float64) func() bool {
		return func() bool {
			families, err := metrics.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if f.GetName() == "opsgate_rate_limit_redis_refunds_followed" {
					return f.GetMetric()[0].GetGauge().GetValue() == want
				}
			}
			return false
		}
	}
	eventually(t, "refunds are heard of", followed(1))
	if err := server.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	if line := <-log; !strings.Contains(line, "not heard of") { // the metric says so for too short a time to be seen
		t.Errorf("logged %q", line)
	}
	eventually(t, "refunds are heard of again", followed(1))
	server.Freeze()
	eventually(t, "the silence is noticed", followed(0))
	server.Thaw()
	eventually(t, "refunds are heard of in the end", followed(1))
}

// Nothing in the metrics of a store names a token, and their names are as they should be.
func TestMetricsAreInOrder(t *testing.T) {
	server := redistest.Start(t)
	metrics := prometheus.NewRegistry()
	s := newStore(t, redisstore.Options{Client: newClient(t, redisstore.ClientOptions{Addresses: []string{server.Addr()}}), Registerer: metrics})
	decide(t, s, "0b0b0b0b-0000", specified(t))
	families, err := metrics.Gather()
	if err != nil || len(families) != 3 || strings.Contains(fmt.Sprint(families), "0b0b0b0b") {
		t.Errorf("%v, error %v", families, err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("problems %v, error %v", problems, err)
	}
}
