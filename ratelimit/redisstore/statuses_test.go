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

func wantStatuses(t *testing.T, g *gateway, want ...string) {
	t.Helper()
	if got := statuses(t, g); !slices.Equal(got, want) {
		t.Errorf("the statuses are %.100q, want %q", got, want)
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
	g := newGateway(t, newClient(t, redisstore.ClientOptions{Addresses: []string{server.Addr()}}), "new")
	beat(t, 1, g)
	counted := server.Client().Eval(t.Context(), previousHeartbeatLua, []string{heartbeatsKey}, "old", 60_000).Val()
	if counted != int64(2) {
		t.Errorf("the old version counts %v gateways", counted)
	}
	wantStatuses(t, g, "?", "new")
	beat(t, 1, g)
	wantCount(t, 2, g)
}

// A gateway that loses Redis cannot report it. The others find it silent, but not right after an outage that all of them had.
func TestGatewayThatIsNotHeardIsSilent(t *testing.T) {
	server := redistest.Start(t)
	client := newClient(t, redisstore.ClientOptions{Addresses: []string{server.Addr()}})
	g := newGateway(t, client, "a")
	write := func(name string, ago time.Duration) {
		t.Helper()
		at := server.Client().Time(t.Context()).Val().Add(-ago).UnixMilli()
		testkit.Must(t, server.Client().HSet(t.Context(), statusesKey, "id of "+name, fmt.Sprint(at, " ", name)).Err())
	}
	beat(t, 3, g)
	write("b", 4*heartbeat)
	write("c", 9*time.Minute)
	write("d", 11*time.Minute)
	write("e", -11*time.Minute) // before the clock was set back
	wantStatuses(t, g, "a", "b", "c")
	if n := server.Client().HLen(t.Context(), statusesKey).Val(); n != 3 { // the read has removed the others
		t.Errorf("%d statuses", n)
	}
	beat(t, 1, g)
	wantStatuses(t, g, "a", "b silent", "c silent")
	testkit.Must(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "default", "-zadd").Err())
	beat(t, 1, g) // fails
	testkit.Must(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "default", "+zadd").Err())
	beat(t, 3, g)
	wantStatuses(t, g, "a", "b", "c")
	beat(t, 1, g)
	wantStatuses(t, g, "a", "b silent", "c silent")
}

// What another process wrote is bounded and skipped, and does not fail the read.
func TestEntriesThatAreNotStatusesAreLeftOut(t *testing.T) {
	server := redistest.Start(t)
	g := newGateway(t, newClient(t, redisstore.ClientOptions{Addresses: []string{server.Addr()}}), "a")
	beat(t, 1, g)
	now := server.Client().Time(t.Context()).Val().UnixMilli()
	for id, value := range map[string]any{
		"1": "", "2": "no time", "3": "-5 x", "4": "99999999999999999999 x", "5": fmt.Sprint(now), "6": bytes.Repeat([]byte("x"), 4<<10),
		"7": fmt.Sprint(now, " ", strings.Repeat("x", redisstore.MaxStatus+100)), strings.Repeat("8", 65): fmt.Sprint(now, " x"),
	} {
		testkit.Must(t, server.Client().HSet(t.Context(), statusesKey, id, value).Err())
	}
	wantStatuses(t, g, "a")
	pipe := server.Client().Pipeline()
	for i := range 1100 {
		pipe.HSet(t.Context(), statusesKey, fmt.Sprint("flood ", i), fmt.Sprint(now, " x"))
	}
	_, err := pipe.Exec(t.Context())
	testkit.Must(t, err)
	if _, err := g.List(t.Context()); err == nil || !strings.Contains(err.Error(), "more gateways than can be read") {
		t.Error(err)
	}
	beat(t, 1, g) // removes them
	wantStatuses(t, g, "a")
}

// A user of Redis from before the status was written may lack its key or its commands.
func TestCountingDoesNotNeedThePermissionForStatuses(t *testing.T) {
	const commands = " +eval +time +zadd +zrem +zremrangebyscore +zcard +pexpire +hello +auth"
	for name, rule := range map[string]string{
		"no commands": "~opsgate:*" + commands,
		"no key":      "~opsgate:replicas" + commands + " +hset +hdel +hlen +hgetall +zrange",
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, append([]string{"--user", "gate", "on", ">secret", "-@all"}, strings.Fields(rule)...)...)
			gateways := startGateways(t, 2, redisstore.ClientOptions{
				Addresses: []string{server.Addr()}, Credentials: func() (string, string) { return "gate", "secret" },
			})
			for _, g := range gateways {
				_, err := g.List(t.Context())
				for _, err := range []error{err, g.StatusError()} {
					if err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "ACL failure") &&
						!strings.Contains(err.Error(), "The user executing the script can't") { // Redis 7.0
						t.Errorf("got %v", err)
					}
				}
				if log := g.log.String(); strings.Count(log, "the status of this gateway is not written") != 1 ||
					strings.Count(log, "whether redis evicts keys is not known") != 1 || strings.Contains(log, "cannot be counted") {
					t.Errorf("logged\n%s", log)
				}
			}
			end(t, gateways[1])
			beat(t, 3, gateways[0])
			wantCount(t, 1, gateways[0])
		})
	}
}

// BenchmarkGateways measures a read of all gateways.
func BenchmarkGateways(b *testing.B) {
	for _, gateways := range []int{1, 20, 200} {
		b.Run(fmt.Sprint(gateways), func(b *testing.B) {
			server := redistest.Start(b)
			g := newGateway(b, newClient(b, redisstore.ClientOptions{Addresses: []string{server.Addr()}, Timeout: time.Second}), "")
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
