package redisstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is moved by hand, by whole microseconds.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newClient(t testing.TB, o redisstore.ClientOptions) redis.UniversalClient {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout, o.DialTimeout = 5*time.Second, 5*time.Second // a busy machine is not what is tested
	}
	client, err := redisstore.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func newStore(t rapid.TB, o redisstore.Options) *redisstore.Store {
	t.Helper()
	o.Logger, o.Registerer = slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	s, err := redisstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// subjects makes stores that begin empty, each under a prefix of its own.
func subjects(client redis.UniversalClient) ratelimittest.Factory {
	var n atomic.Int64
	return func(t rapid.TB) ratelimittest.Subject {
		c := newClock()
		s := newStore(t, redisstore.Options{Client: client, Prefix: fmt.Sprintf("%d:", n.Add(1)), Clock: c.Now})
		return ratelimittest.Subject{Store: s, Now: c.Now, Advance: c.Advance, Resolution: time.Microsecond}
	}
}

func TestASingleServer(t *testing.T) {
	server := redistest.Start(t)
	ratelimittest.Run(t, subjects(newClient(t, redisstore.ClientOptions{Addresses: []string{server.Addr()}})))
}

func TestACluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	ratelimittest.Run(t, subjects(newClient(t, redisstore.ClientOptions{Addresses: cluster.Addrs()})))
}

// two are the stores of two gateways, asked in turn. What one is told, the other has not heard of.
type two struct {
	*redisstore.Store
	other *redisstore.Store
	turn  atomic.Int64
}

func (s *two) next() *redisstore.Store {
	if s.turn.Add(1)%2 == 0 {
		return s.other
	}
	return s.Store
}

func (s *two) Decide(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	return s.next().Decide(ctx, tokenID, p)
}

func (s *two) Peek(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	return s.next().Peek(ctx, tokenID, p)
}
