package wiring

import (
	"context"
	"time"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/tracing"
	"opsgate/ratelimit"
)

// A limiter is the store of rate limits, with its background tasks. It lives as long as the
// process, so that a reload keeps the usage of tokens.
type limiter struct {
	ratelimit.Store // for requests

	memory  *ratelimit.Memory // nil if limits are counted in Redis
	inRedis *redisLimits      // nil if limits are counted in memory
}

// newLimiter creates the store of rate limits.
func newLimiter(c common, traces *tracing.Provider) (*limiter, error) {
	if c.Loaded.RateLimit.Store == config.StoreRedis {
		inRedis, err := newRedisLimits(c, traces)
		return &limiter{Store: inRedis, inRedis: inRedis}, err
	}
	memory := ratelimit.NewMemory(time.Now)
	return &limiter{Store: memory, memory: memory}, nil
}

// numGateways returns the number of gateways that share the limits of tokens.
func (l *limiter) numGateways() int {
	if l.inRedis == nil {
		return 1
	}
	return l.inRedis.gateways.Count()
}

// redis returns what the admin pages show of Redis, or nil if limits are counted in memory.
func (l *limiter) redis() *admin.Redis {
	if l.inRedis == nil {
		return nil
	}
	dividedBy := func() int { return l.inRedis.failoverSettings().Gateways }
	return &admin.Redis{Limits: l.inRedis.Store, Gateways: l.inRedis.gateways, DividedBy: dividedBy}
}

// run runs the background tasks of the store until ctx ends.
func (l *limiter) run(ctx context.Context) error {
	if l.inRedis == nil {
		return l.memory.Run(ctx)
	}
	return l.inRedis.run(ctx)
}

func (l *limiter) close() error {
	if l.inRedis == nil {
		return nil
	}
	return l.inRedis.close()
}
