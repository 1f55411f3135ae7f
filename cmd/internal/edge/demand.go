package edge

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/authn"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

// newRecorder opens the record of demand, or returns nil where none is wanted.
func newRecorder(o Options, registry prometheus.Registerer) (*demand.Recorder, error) {
	c := o.Loaded.RateLimit.Demand
	if c.File == "" {
		return nil, nil
	}
	return demand.NewRecorder(demand.Options{
		Path: c.File, Sample: c.Sample.Fraction(), MaxBytes: int64(c.MaxBytes), Logger: o.Logger, Registerer: registry,
	})
}

// A witness records decisions.
type witness struct{ record *demand.Recorder }

// Decided implements [gateway.DecisionObserver].
func (w witness) Decided(p *authn.Principal, a *ratelimit.Assignment, d *ratelimit.Decision) {
	w.record.Decided(p.TokenID, p.TeamID, a.Policy, d)
}

// A recorded limiter records what was given back and forgotten.
type recorded struct {
	limiter
	record *demand.Recorder
}

// Refund implements [ratelimit.Store].
func (r recorded) Refund(ctx context.Context, tokenID string, p *ratelimit.Policy, d ratelimit.Decision) error {
	err := r.limiter.Refund(ctx, tokenID, p, d)
	if err == nil {
		r.record.Refunded(tokenID, &d)
	}
	return err
}

// Reset implements [ratelimit.Store].
func (r recorded) Reset(ctx context.Context, tokenID string) error {
	err := r.limiter.Reset(ctx, tokenID)
	if err == nil {
		r.record.Reset(tokenID)
	}
	return err
}
