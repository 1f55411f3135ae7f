package wiring

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/gate/config"
	"opsgate/ratelimit"
)

// A limiter is the store of rate limits. It lives as long as the process, so that a reload keeps the usage of tokens.
type limiter interface {
	ratelimit.Store
	Run(ctx context.Context) error
}

// buildLimiter creates the store of rate limits, and the recorder of demand if one is configured.
func (p *parts) buildLimiter(o Options, registry prometheus.Registerer) (err error) {
	if o.Loaded.RateLimit.Store == config.StoreRedis {
		if p.shared, err = newSharedLimits(o, registry, p.traces, p.fleet.status); err != nil {
			return err
		}
		p.limiter, p.fleet.replicas = p.shared, p.shared.replicas
	} else {
		p.limiter = ratelimit.NewMemory(ratelimit.MemoryOptions{})
	}
	if p.demand, err = newRecorder(o, registry); err != nil || p.demand == nil {
		return err
	}
	p.limiter = recordingLimiter{p.limiter, p.demand}
	p.decisions = append(p.decisions, demandObserver{p.demand})
	return nil
}

// gateways returns the number of gateways that share the limits of tokens.
func (p *parts) gateways() int {
	if p.shared == nil {
		return 1
	}
	return p.shared.replicas.Count()
}
