package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

const (
	evictingServers = "opsgate_rate_limit_redis_evicting_servers"
	evictedKeys     = "opsgate_rate_limit_redis_evicted_keys_total"
)

// configure sets a value on each server.
func configure(t *testing.T, client *redisstore.Client, name, value string) {
	t.Helper()
	set := func(ctx context.Context, server *redis.Client) error { return server.ConfigSet(ctx, name, value).Err() }
	var err error
	if cluster, ok := client.UniversalClient.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(t.Context(), set)
	} else {
		err = set(t.Context(), client.UniversalClient.(*redis.Client))
	}
	testkit.Must(t, err)
}

func TestServersThatMayEvictAreCounted(t *testing.T) {
	t.Parallel()
	servers := map[string]float64{"single": 1, "cluster": 3, "sentinel": 1}
	for name, start := range topologies {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, start(t))
			for _, test := range []struct {
				policy, maxmemory string
				want              float64
			}{{"noeviction", "1gb", 0}, {"volatile-ttl", "0", 0}, {"allkeys-lru", "1gb", servers[name]}} {
				configure(t, client, "maxmemory", test.maxmemory)
				configure(t, client, "maxmemory-policy", test.policy)
				g := startReporting(t, client, statusOf("a"))
				afterHeartbeats(t, []*gateway{g}, 2, func() {})
				if got := valueOf(t, g.registry, evictingServers); got != test.want {
					t.Errorf("%s, %s: %v servers", test.policy, test.maxmemory, got)
				}
			}
		})
	}
}

// Under volatile-ttl, Redis evicts what expires first. The heartbeats stay, and the evicted keys are counted.
func TestEvictedKeysAreCountedAndHeartbeatsStay(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory", "8mb", "--maxmemory-policy", "volatile-ttl")
	gateways := startGateways(t, 3, redisstore.ClientOptions{Addresses: []string{server.Addr()}})
	written := 0
	afterHeartbeats(t, gateways, 16, func() { // the first and the 16th read what was evicted
		pipe := server.Client().Pipeline()
		for range 100 {
			written++
			pipe.Set(t.Context(), fmt.Sprint("account ", written), strings.Repeat("x", 1000), time.Hour)
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := server.Client().ZCard(t.Context(), heartbeatsKey).Val(); n != 3 {
			t.Fatalf("%d heartbeats are left", n)
		}
	})
	for _, g := range gateways {
		servers, keys := g.Eviction()
		if g.Count() != 3 || servers != 1 || keys == 0 || valueOf(t, g.registry, evictedKeys) != float64(keys) {
			t.Errorf("counts %d; %d servers evicted %d keys", g.Count(), servers, keys)
		}
	}
}
