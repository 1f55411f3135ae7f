package redisstore_test

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"opsgate/internal/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
	"opsgate/ratelimit/redisclient"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

func TestMain(m *testing.M) {
	redisclient.LogTo(slog.New(slog.DiscardHandler))
	testkit.VerifyTestMain(m)
}

// newClock returns a clock with whole microseconds.
func newClock() *ratelimittest.Clock {
	return ratelimittest.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC))
}

func newClient(t testing.TB, o redisclient.Options) *redisclient.Client {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout, o.DialTimeout = 5*time.Second, 5*time.Second // a slow machine must not fail the test
	}
	client, err := redisclient.New(o)
	testkit.Must(t, err)
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
	testkit.Must(t, err)
	return s
}

// subjects returns empty stores, each with its own prefix.
func subjects(client *redisclient.Client) ratelimittest.Factory {
	var n atomic.Int64
	return func(t rapid.TB) ratelimittest.Subject {
		c := newClock()
		s := newStore(t, redisstore.Options{Client: client, Prefix: fmt.Sprintf("%d:", n.Add(1)), Clock: c.Now})
		return ratelimittest.Subject{Stores: []ratelimit.Store{s}, Now: c.Now, Advance: c.Advance}
	}
}

// An account in a cluster is on one server, so in the short form the generated schedules are
// enough.
func TestStoreInAClusterConforms(t *testing.T) {
	cluster := redistest.StartCluster(t)
	conforms := ratelimittest.Run
	if testing.Short() {
		conforms = ratelimittest.RunSchedules
	}
	conforms(t, subjects(newClient(t, redisclient.Options{Addresses: cluster.Addrs()})))
}

// Two gateways with a single server pass what one must pass, and more.
func TestTwoStoresWithOneRedisConform(t *testing.T) {
	server := redistest.Start(t)
	clients := [2]*redisclient.Client{}
	for i := range clients {
		clients[i] = newClient(t, redisclient.Options{Addresses: []string{server.Addr()}})
	}
	var n atomic.Int64
	ratelimittest.Run(t, func(t rapid.TB) ratelimittest.Subject {
		c, prefix := newClock(), fmt.Sprintf("%d:", n.Add(1))
		var stores []ratelimit.Store
		for _, client := range clients {
			stores = append(stores, newStore(t, redisstore.Options{Client: client, Prefix: prefix, Clock: c.Now}))
		}
		return ratelimittest.Subject{Stores: stores, Now: c.Now, Advance: c.Advance}
	})
}
