package limiters

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	ulule "github.com/ulule/limiter/v3/drivers/store/redis"

	"opsgate/internal/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/redisclient"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// A limit is one of those that a limiter decides, the shortest first.
type limit struct {
	requests int
	per      time.Duration
}

// An allow decides a request of a token.
type allow func(ctx context.Context, token string) (bool, error)

// limiters are the limiters to compare, with a function that returns each for a server and limits.
var limiters = []struct {
	name string
	make func(tb testing.TB, server *redistest.Server, limits []limit) allow
}{
	{"opsgate, exact windows", opsgate},
	{"sorted set, exact windows", sortedSet},
	{"redis_rate, GCRA", gcra},
	{"ulule, fixed windows", fixedWindows},
}

func opsgate(tb testing.TB, server *redistest.Server, limits []limit) allow {
	list := make([]ratelimit.Limit, len(limits))
	for i, l := range limits {
		list[i] = ratelimit.Limit{Name: l.per.String(), Requests: l.requests, Per: l.per}
	}
	p, err := ratelimit.NewPolicy(list)
	testkit.Must(tb, err)
	client, err := redisclient.New(redisclient.Options{Addresses: []string{server.Addr()}, Timeout: 5 * time.Second})
	testkit.Must(tb, err)
	tb.Cleanup(func() { _ = client.Close() })
	s, err := redisstore.New(redisstore.Options{Client: client, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	testkit.Must(tb, err)
	return func(ctx context.Context, token string) (bool, error) {
		d, err := s.Decide(ctx, token, p)
		return d.Allowed, err
	}
}

// sortedSet keeps every admission in a sorted set for each limit: the usual way to exact windows.
func sortedSet(_ testing.TB, server *redistest.Server, limits []limit) allow {
	script := redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
for i, key in ipairs(KEYS) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - ARGV[2 * i])
  if redis.call('ZCARD', key) >= tonumber(ARGV[2 * i - 1]) then return 0 end
end
for i, key in ipairs(KEYS) do
  redis.call('ZADD', key, now, t[1] .. t[2] .. ARGV[#ARGV])
  redis.call('PEXPIRE', key, math.ceil(ARGV[2 * i] / 1000))
end
return 1`)
	client := server.Client()
	var members atomic.Int64 // so that no two calls have the same
	return func(ctx context.Context, token string) (bool, error) {
		var keys []string
		var args []any
		for _, l := range limits {
			keys = append(keys, "log:"+l.per.String()+":"+token)
			args = append(args, l.requests, l.per.Microseconds())
		}
		n, err := script.Run(ctx, client, keys, append(args, members.Add(1))...).Int()
		return n == 1, err
	}
}

// gcra calls the limiter once for each limit, until one denies: it has no decision on two.
func gcra(_ testing.TB, server *redistest.Server, limits []limit) allow {
	l := redis_rate.NewLimiter(server.Client())
	return func(ctx context.Context, token string) (bool, error) {
		for _, one := range limits {
			r, err := l.Allow(ctx, one.per.String()+":"+token, redis_rate.Limit{Rate: one.requests, Burst: one.requests, Period: one.per})
			if err != nil || r.Allowed == 0 {
				return false, err
			}
		}
		return true, nil
	}
}

// fixedWindows calls the limiter once for each limit, until one denies.
func fixedWindows(tb testing.TB, server *redistest.Server, limits []limit) allow {
	var list []*limiter.Limiter
	for _, l := range limits {
		store, err := ulule.NewStoreWithOptions(server.Client(), limiter.StoreOptions{Prefix: l.per.String()})
		testkit.Must(tb, err)
		list = append(list, limiter.New(store, limiter.Rate{Period: l.per, Limit: int64(l.requests)}))
	}
	return func(ctx context.Context, token string) (bool, error) {
		for _, one := range list {
			c, err := one.Get(ctx, token)
			if err != nil || c.Reached {
				return false, err
			}
		}
		return true, nil
	}
}
