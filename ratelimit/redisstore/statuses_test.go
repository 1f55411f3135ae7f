package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

const statusesKey = "opsgate:gateways"

// statusOf returns a status function for a gateway's name.
func statusOf(name string) func() []byte { return func() []byte { return []byte(name) } }

// statuses returns the statuses of the gateways, sorted; "?" for one without.
func statuses(t *testing.T, g *gateway) (list []string) {
	t.Helper()
	all, err := g.List(t.Context())
	testkit.Must(t, err)
	for _, p := range all {
		text := "?"
		if p.Status != nil {
			text = string(p.Status)
		}
		if p.Silent {
			text += " silent"
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return list
}

func awaitStatuses(t *testing.T, g *gateway, want ...string) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprint("the statuses are ", want), func() bool { return slices.Equal(statuses(t, g), want) })
}

func TestGatewaysReadTheStatusesOfAll(t *testing.T) {
	t.Parallel()
	for name, start := range topologies {
		t.Run(name, func(t *testing.T) {
			o := start(t)
			first := startReporting(t, newClient(t, o), statusOf("a"))
			second := startReporting(t, newClient(t, o), statusOf("b"))
			for _, g := range []*gateway{first, second} {
				awaitStatuses(t, g, "a", "b")
				if err := g.StatusError(); err != nil {
					t.Error(err)
				}
			}
			second.stop()
			if got := statuses(t, first); !slices.Equal(got, []string{"a"}) {
				t.Errorf("after one has ended: %q", got)
			}
		})
	}
}

// previousHeartbeatLua is the script by which versions without a status send their heartbeats.
const previousHeartbeatLua = `
local t = redis.call('TIME')
local now, kept = t[1] * 1000 + math.floor(t[2] / 1000), tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - kept)
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + kept, '+inf')
redis.call('PEXPIRE', KEYS[1], kept)
return redis.call('ZCARD', KEYS[1])`

// During an upgrade, old and new gateways count each other.
func TestPreviousVersionIsCountedAndHasNoStatus(t *testing.T) {
	server := redistest.Start(t)
	g := startReporting(t, newClient(t, redisstore.ClientOptions{Addresses: []string{server.Addr()}}), statusOf("new"))
	awaitStatuses(t, g, "new")
	counted := server.Client().Eval(t.Context(), previousHeartbeatLua, []string{heartbeatsKey}, "old", 60_000).Val()
	if counted != int64(2) {
		t.Errorf("the old version counts %v gateways", counted)
	}
	if got := statuses(t, g); !slices.Equal(got, []string{"?", "new"}) {
		t.Errorf("the statuses are %q", got)
	}
	testkit.Eventually(t, "the new version counts both", func() bool {
		_ = server.Client().Eval(t.Context(), previousHeartbeatLua, []string{heartbeatsKey}, "old", 60_000).Err()
		return g.Count() == 2
	})
}

// A gateway that loses Redis cannot report it. The others find it silent, but not right after an outage that all of them had.
func TestGatewayThatIsNotHeardIsSilent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, redisstore.ClientOptions{Addresses: []string{server.Addr()}})
	g := startReporting(t, client, statusOf("a"))
	awaitStatuses(t, g, "a")
	write := func(name string, ago time.Duration) {
		t.Helper()
		at := server.Client().Time(t.Context()).Val().Add(-ago).UnixMilli()
		testkit.Must(t, server.Client().HSet(t.Context(), statusesKey, "id of "+name, fmt.Sprint(at, " ", name)).Err())
	}
	write("b", 4*heartbeat)
	awaitStatuses(t, g, "a", "b silent")
	write("c", 9*time.Minute)
	write("d", 11*time.Minute)
	write("e", -11*time.Minute) // before the clock was set back
	if got := statuses(t, g); !slices.Equal(got, []string{"a", "b silent", "c silent"}) {
		t.Errorf("the statuses are %q", got)
	}
	for _, old := range []string{"d", "e"} {
		if !server.Client().HExists(t.Context(), statusesKey, "id of "+old).Val() {
			t.Error("removed early")
		}
	}
	startReporting(t, client, statusOf("f"))
	testkit.Eventually(t, "a new gateway removes what is too old", func() bool { return server.Client().HLen(t.Context(), statusesKey).Val() == 4 })
	server.Pause()
	testkit.Eventually(t, "heartbeats fail", func() bool { return strings.Contains(g.log.String(), "gateways cannot be counted") })
	server.Resume()
	testkit.Eventually(t, "a read succeeds", func() bool { _, err := g.List(t.Context()); return err == nil })
	if got := strings.Join(statuses(t, g), ","); strings.Contains(got, "silent") {
		t.Errorf("right after an outage: %s", got)
	}
	testkit.Eventually(t, "it is found again", func() bool { return strings.Contains(strings.Join(statuses(t, g), ","), "b silent") })
}

// What another process wrote is bounded and skipped, and does not fail the read.
func TestEntriesThatAreNotStatusesAreLeftOut(t *testing.T) {
	server := redistest.Start(t)
	g := startReporting(t, newClient(t, redisstore.ClientOptions{Addresses: []string{server.Addr()}}), statusOf("a"))
	awaitStatuses(t, g, "a")
	now := server.Client().Time(t.Context()).Val().UnixMilli()
	for id, value := range map[string]any{
		"1": "", "2": "no time", "3": "-5 x", "4": "99999999999999999999 x", "5": fmt.Sprint(now), "6": bytes.Repeat([]byte("x"), 4<<10),
		"7": fmt.Sprint(now, " ", strings.Repeat("x", redisstore.MaxStatus+100)), strings.Repeat("8", 65): fmt.Sprint(now, " x"),
	} {
		testkit.Must(t, server.Client().HSet(t.Context(), statusesKey, id, value).Err())
	}
	if got := statuses(t, g); !slices.Equal(got, []string{"a"}) {
		t.Errorf("the statuses are %.100q", got)
	}
	pipe := server.Client().Pipeline()
	for i := range 1100 {
		pipe.HSet(t.Context(), statusesKey, fmt.Sprint("flood ", i), fmt.Sprint(now, " x"))
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.List(t.Context()); err != nil && !strings.Contains(err.Error(), "more gateways than can be read") {
		t.Error(err)
	}
	testkit.Eventually(t, "the next heartbeat removes them", func() bool { return server.Client().HLen(t.Context(), statusesKey).Val() == 1 })
	awaitStatuses(t, g, "a")
}

// A user of Redis from before the status was written may lack its key or its commands.
func TestCountingDoesNotNeedThePermissionForStatuses(t *testing.T) {
	t.Parallel()
	const commands = " +eval +time +zadd +zrem +zremrangebyscore +zcard +pexpire +hello +auth"
	for name, rule := range map[string]string{
		"no commands": "~opsgate:*" + commands,
		"no key":      "~opsgate:replicas" + commands + " +hset +hdel +hlen +hgetall +zrange",
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, append([]string{"--user", "gate", "on", ">secret", "-@all"}, strings.Fields(rule)...)...)
			o := redisstore.ClientOptions{
				Addresses: []string{server.Addr()}, Credentials: func() (string, string) { return "gate", "secret" },
			}
			first, second := startReporting(t, newClient(t, o), statusOf("a")), startReporting(t, newClient(t, o), statusOf("b"))
			for _, g := range []*gateway{first, second} {
				testkit.Eventually(t, "both are counted", func() bool { return g.Count() == 2 })
				_, err := g.List(t.Context())
				for _, err := range []error{err, g.StatusError()} {
					if err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "ACL failure") &&
						!strings.Contains(err.Error(), "The user executing the script can't") { // Redis 7.0
						t.Errorf("got %v", err)
					}
				}
				testkit.Eventually(t, "both are logged", func() bool {
					return strings.Count(g.log.String(), "the status of this gateway is not written") == 1 &&
						strings.Count(g.log.String(), "whether redis evicts keys is not known") == 1
				})
			}
			second.stop()
			testkit.Eventually(t, "one is counted", func() bool { return first.Count() == 1 })
			if strings.Contains(first.log.String(), "cannot be counted") {
				t.Error(first.log.String())
			}
		})
	}
}

// BenchmarkGateways measures a read of all gateways.
func BenchmarkGateways(b *testing.B) {
	for _, gateways := range []int{1, 20, 200} {
		b.Run(fmt.Sprint(gateways), func(b *testing.B) {
			server := redistest.Start(b)
			g := newGateway(b, newClient(b, redisstore.ClientOptions{Addresses: []string{server.Addr()}, Timeout: time.Second}))
			before := usedMemory(b, server)
			status := strings.Repeat("x", 500)
			for i := range gateways {
				at := server.Client().Time(b.Context()).Val().UnixMilli()
				testkit.Must(b, server.Client().HSet(context.Background(), statusesKey, fmt.Sprintf("%032x", i), fmt.Sprint(at, " ", status)).Err())
			}
			perGateway := (usedMemory(b, server) - before) / gateways
			for b.Loop() {
				if all, err := g.List(b.Context()); err != nil || len(all) != gateways {
					b.Fatal(len(all), err)
				}
			}
			b.ReportMetric(float64(perGateway), "B-in-Redis/gateway")
		})
	}
}
