package wiring

import (
	"context"

	"opsgate/authn"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

// newRecorder opens the record of demand. It returns nil, which can be closed, if none is configured.
func newRecorder(c common) (*demand.Recorder, error) {
	record := c.Loaded.RateLimit.Demand
	if record.File == "" {
		return nil, nil
	}
	return demand.NewRecorder(demand.Options{
		Path: record.File, Sample: record.Sample.Fraction(), MaxBytes: int64(record.MaxBytes), Logger: c.Logger, Registerer: c.registry,
	})
}

// A demandObserver records decisions.
type demandObserver struct{ recorder *demand.Recorder }

// Decided implements [gateway.DecisionObserver].
func (o demandObserver) Decided(p *authn.Principal, a *ratelimit.Assignment, d *ratelimit.Decision) {
	o.recorder.Decided(p.TokenID, p.TeamID, a.Policy, d)
}

// A recordingStore records refunds and resets.
type recordingStore struct {
	ratelimit.Store

	recorder *demand.Recorder
}

// Refund implements [ratelimit.Store].
func (r recordingStore) Refund(ctx context.Context, tokenID string, p *ratelimit.Policy, d ratelimit.Decision) error {
	err := r.Store.Refund(ctx, tokenID, p, d)
	if err == nil {
		r.recorder.Refunded(tokenID, &d)
	}
	return err
}

// Reset implements [ratelimit.Store].
func (r recordingStore) Reset(ctx context.Context, tokenID string) error {
	err := r.Store.Reset(ctx, tokenID)
	if err == nil {
		r.recorder.Reset(tokenID)
	}
	return err
}
