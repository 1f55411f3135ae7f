package membership_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisclient"
	"opsgate/ratelimit/redisstore/redistest"
)

const (
	evictingServers = "opsgate_rate_limit_redis_evicting_servers"
	evictedKeys     = "opsgate_rate_limit_redis_evicted_keys_total"
)

// configure sets a value on each server.
func configure(t *testing.T, client *redisclient.Client, name, value string) {
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
				g := newGateway(t, client)
				beat(t, 1, g)
				if got := valueOf(t, g.registry, evictingServers); got != test.want {
					t.Errorf("%s, %s: %v servers", test.policy, test.maxmemory, got)
				}
			}
		})
	}
}

// allowInfo lets the user of the tests read INFO of a server, or not.
func allowInfo(t *testing.T, server *redistest.Server, allowed bool) {
	t.Helper()
	testkit.Must(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "default", map[bool]string{true: "+info", false: "-info"}[allowed]).Err())
}

// Of the masters of a cluster, one that does not answer may still evict keys.
func TestServersThatMayEvictAreKeptWhileAMasterDoesNotAnswer(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	client := newClient(t, redisclient.Options{Addresses: cluster.Addrs()})
	configure(t, client, "maxmemory", "1gb")
	configure(t, client, "maxmemory-policy", "allkeys-lru")
	g := newGateway(t, client)
	for _, test := range []struct {
		policy  string
		allowed bool // on the first master
		want    int64
	}{{"allkeys-lru", true, 3}, {"allkeys-lru", false, 3}, {"noeviction", false, 3}, {"noeviction", true, 0}} {
		configure(t, client, "maxmemory-policy", test.policy)
		allowInfo(t, cluster.Servers[0], test.allowed)
		err := g.ReadEviction(t.Context())
		if servers, _ := g.Eviction(); servers != test.want || (err == nil) != test.allowed {
			t.Errorf("%+v: %d servers, %v", test, servers, err)
		}
	}
}

// A call without an answer does not show that INFO is allowed again.
func TestDeniedInfoIsLoggedOnce(t *testing.T) {
	server := redistest.Start(t)
	g := newGateway(t, newClient(t, redisclient.Options{Addresses: []string{server.Addr()}}))
	for i, step := range []struct {
		do    func()
		lines int
	}{
		{func() { allowInfo(t, server, false) }, 1},
		{server.Kill, 1},
		{func() { server.Restart(); allowInfo(t, server, false) }, 1},
		{func() { allowInfo(t, server, true) }, 1},
		{func() { allowInfo(t, server, false) }, 2},
	} {
		step.do()
		err := g.ReadEviction(t.Context())
		if n := strings.Count(g.log.String(), "whether redis evicts keys is not known"); n != step.lines {
			t.Errorf("step %d: %d lines, %v", i, n, err)
		}
	}
}

// Under volatile-ttl, Redis evicts what expires first. The heartbeats stay, and the evicted keys
// are counted.
func TestEvictedKeysAreCountedAndHeartbeatsStay(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "8mb", "--maxmemory-policy", "volatile-ttl")
	gateways := startGateways(t, 3, redisclient.Options{Addresses: []string{server.Addr()}})
	for round := range 15 { // the first heartbeat and the 16th read what was evicted
		pipe := server.Client().Pipeline()
		for i := range 1000 {
			pipe.Set(t.Context(), fmt.Sprint("account ", round, i), strings.Repeat("x", 1000), time.Hour)
		}
		_, err := pipe.Exec(t.Context())
		testkit.Must(t, err)
		if n := server.Client().ZCard(t.Context(), heartbeatsKey).Val(); n != 3 {
			t.Fatalf("%d heartbeats are left", n)
		}
		beat(t, 1, gateways...)
	}
	wantCount(t, 3, gateways...)
	for _, g := range gateways {
		servers, keys := g.Eviction()
		if servers != 1 || keys == 0 || valueOf(t, g.registry, evictedKeys) != float64(keys) {
			t.Errorf("%d servers evicted %d keys", servers, keys)
		}
	}
}
