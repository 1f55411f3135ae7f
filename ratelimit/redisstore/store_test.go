package redisstore_test

import (
	"context"
	"fmt"
	"log/slog"
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

func TestMain(m *testing.M) {
	redisstore.LogTo(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

// newClock returns a clock with whole microseconds.
func newClock() *ratelimittest.Clock {
	return ratelimittest.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC))
}

func newClient(t testing.TB, o redisstore.ClientOptions) redis.UniversalClient {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout, o.DialTimeout = 5*time.Second, 5*time.Second // a slow machine must not fail the test
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
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	s, err := redisstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// subjects returns empty stores, each with its own prefix.
func subjects(client redis.UniversalClient) ratelimittest.Factory {
	var n atomic.Int64
	return func(t rapid.TB) ratelimittest.Subject {
		c := newClock()
		s := newStore(t, redisstore.Options{Client: client, Prefix: fmt.Sprintf("%d:", n.Add(1)), Clock: c.Now})
		return ratelimittest.Subject{Store: s, Now: c.Now, Advance: c.Advance}
	}
}

func TestStoreInASingleServerConforms(t *testing.T) {
	server := redistest.Start(t)
	ratelimittest.Run(t, subjects(newClient(t, redisstore.ClientOptions{Addresses: []string{server.Addr()}})))
}

func TestStoreInAClusterConforms(t *testing.T) {
	cluster := redistest.StartCluster(t)
	ratelimittest.Run(t, subjects(newClient(t, redisstore.ClientOptions{Addresses: cluster.Addrs()})))
}

// An alternatingStore is the stores of two gateways, used in turn.
type alternatingStore struct {
	gateways [2]*redisstore.Store
	turn     int
}

func (s *alternatingStore) next() *redisstore.Store {
	s.turn++
	return s.gateways[s.turn%2]
}

func (s *alternatingStore) Decide(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	return s.next().Decide(ctx, tokenID, p)
}

func (s *alternatingStore) Peek(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	return s.next().Peek(ctx, tokenID, p)
}

func (s *alternatingStore) Refund(ctx context.Context, tokenID string, p *ratelimit.Policy, d ratelimit.Decision) error {
	return s.next().Refund(ctx, tokenID, p, d)
}

func (s *alternatingStore) Reset(ctx context.Context, tokenID string) error {
	return s.next().Reset(ctx, tokenID)
}

func TestTwoStoresWithOneRedisConform(t *testing.T) {
	server := redistest.Start(t)
	clients := [2]redis.UniversalClient{}
	for i := range clients {
		clients[i] = newClient(t, redisstore.ClientOptions{Addresses: []string{server.Addr()}})
	}
	var n atomic.Int64
	ratelimittest.Run(t, func(t rapid.TB) ratelimittest.Subject {
		c, prefix := newClock(), fmt.Sprintf("%d:", n.Add(1))
		s := &alternatingStore{}
		for i, client := range clients {
			s.gateways[i] = newStore(t, redisstore.Options{Client: client, Prefix: prefix, Clock: c.Now})
		}
		return ratelimittest.Subject{Store: s, Now: c.Now, Advance: c.Advance}
	})
}
