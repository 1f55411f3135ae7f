package wiring

import (
	"context"
	"time"

	"opsgate/gateway"
	"opsgate/internal/pulse"
	"opsgate/internal/tracing"
	"opsgate/ratelimit/heavyhitters"
)

// A builder builds snapshots. It has the parts that live as long as the process, which the gateways
// of all snapshots share.
type builder struct {
	options   gateway.Options // without the options from the configuration
	traces    *tracing.Provider
	loadLimit *gateway.LoadLimit
	refunds   *gateway.Refunds
	busiest   busiestTokens
}

func newBuilder(c common, d *dependencies) (*builder, error) {
	loadLimit, err := gateway.NewLoadLimit(c.Loaded.HTTP.MaxInFlight, c.Loaded.MaxBodies(), c.Loaded.MaxUnwritten(),
		c.registry)
	if err != nil {
		return nil, err
	}
	metrics, err := gateway.NewMetrics(c.registry)
	if err != nil {
		return nil, err
	}
	busiest := busiestTokens{heavyhitters.New()}
	refunds := gateway.NewRefunds(gateway.RefundsOptions{
		Limiter: d.limiter, Metrics: metrics, Logger: c.Logger, Lines: c.logs.requests.Failed,
	})
	options := gateway.Options{
		Fleet:         d.clients.Fleet,
		Monitoring:    d.clients.Monitoring,
		Incident:      d.clients.Incident,
		Audit:         d.clients.Audit,
		Authenticator: d.authenticator,
		Limiter:       d.limiter,
		Refunds:       refunds,
		RetrySpread:   gateway.NewRetrySpread(d.limiter.numGateways),
		LoadLimit:     loadLimit,
		Decisions:     busiest,
		Logger:        c.Logger,
		Lines:         c.logs.requests,
		Metrics:       metrics,
	}
	return &builder{options, d.traces, loadLimit, refunds, busiest}, nil
}

// tasks returns the background tasks, without the refunds, which end before the others.
func (b *builder) tasks() []func(context.Context) error {
	return []func(context.Context) error{b.busiest.sketch.Run, b.cutOffOverdue}
}

// cutOffEvery is the interval at which overdue responses are cut off.
const cutOffEvery = 500 * time.Millisecond

// cutOffOverdue cuts off responses that are overdue, until ctx ends. It returns nil.
func (b *builder) cutOffOverdue(ctx context.Context) error {
	tick := pulse.New(cutOffEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			tick.Again()
			b.loadLimit.CutOffOverdue(now)
		case <-ctx.Done():
			return nil
		}
	}
}
