package edge

import (
	"opsgate/authn"
	"opsgate/gateway"
	"opsgate/ratelimit"
	"opsgate/ratelimit/heavyhitters"
)

// decisions hands every decision to those who keep something of it.
type decisions struct {
	busiest *heavyhitters.Sketch
}

var _ gateway.DecisionObserver = (*decisions)(nil)

// Decided implements [gateway.DecisionObserver].
func (d *decisions) Decided(p *authn.Principal, _ *ratelimit.Assignment, made *ratelimit.Decision) {
	d.busiest.Add(p.TokenID, p.TeamID, !made.Allowed)
}
