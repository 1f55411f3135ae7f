package wiring

import (
	"opsgate/authn"
	"opsgate/gateway"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
	"opsgate/ratelimit/heavyhitters"
)

// decisions passes each decision of the limiter to what counts or records them.
type decisions struct {
	busiest  *heavyhitters.Sketch
	denied   *deniedTokens
	recorder *demand.Recorder // nil if demand is not recorded
}

var _ gateway.DecisionObserver = (*decisions)(nil)

// Decided implements [gateway.DecisionObserver].
func (o *decisions) Decided(operation string, p *authn.Principal, a *ratelimit.Assignment, d *ratelimit.Decision) {
	o.busiest.Add(p.TokenID, p.TeamID, !d.Allowed)
	if !d.Allowed {
		o.denied.add(p.TokenID)
	}
	if o.recorder != nil {
		o.recorder.Decided(operation, p.TokenID, p.TeamID, a.Policy, d)
	}
}
