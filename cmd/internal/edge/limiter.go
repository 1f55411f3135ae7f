package edge

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/config"
	"opsgate/ratelimit"
)

// A limiter is a store of rate limits that runs. It outlives every configuration, and so does the usage of tokens.
type limiter interface {
	ratelimit.Store
	Run(ctx context.Context) error
}

// buildLimiter makes the store of rate limits, and the recorder of its decisions where one is configured.
func (p *parts) buildLimiter(o Options, registry prometheus.Registerer) (err error) {
	if o.Loaded.RateLimit.Store == config.StoreRedis {
		if p.shared, err = newSharedLimits(o, registry, p.traces); err != nil {
			return err
		}
		p.limiter = p.shared
	} else {
		p.limiter = ratelimit.NewMemory(ratelimit.MemoryOptions{})
	}
	if p.demand, err = newRecorder(o, registry); err != nil || p.demand == nil {
		return err
	}
	p.limiter = recorded{p.limiter, p.demand}
	p.decisions = append(p.decisions, witness{p.demand})
	return nil
}

// configureLimiter has the store go by what can change while running.
func (p *parts) configureLimiter(c config.RateLimit) {
	if p.shared != nil {
		p.shared.configure(c)
	}
}

// gateways is the number of gateways that share the limits of tokens.
func (p *parts) gateways() int {
	if p.shared == nil {
		return 1
	}
	return p.shared.replicas.Count()
}
