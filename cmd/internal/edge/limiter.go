package edge

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/config"
	"opsgate/ratelimit"
)

// A limiter is a store of budgets as the edge sees it. It outlives every configuration, and with it what tokens spent.
type limiter interface {
	ratelimit.Store
	Run(ctx context.Context) error
}

func newLimiter(Options, prometheus.Registerer) (limiter, error) {
	return ratelimit.NewMemory(ratelimit.MemoryOptions{}), nil
}

func (p *parts) configureLimiter(config.RateLimit) {}
