package wiring

import (
	"opsgate/authn"
	"opsgate/gateway"
	"opsgate/ratelimit"
	"opsgate/ratelimit/heavyhitters"
)

// decisions passes each decision of the limiter to what counts them.
type decisions struct {
	busiest *heavyhitters.Sketch
	denied  *deniedTokens
}

var _ gateway.DecisionObserver = (*decisions)(nil)

// Decided implements [gateway.DecisionObserver].
func (o *decisions) Decided(p *authn.Principal, d *ratelimit.Decision) {
	o.busiest.Add(p.TokenID, p.TeamID, !d.Allowed)
	if !d.Allowed {
		o.denied.add(p.TokenID)
	}
}
