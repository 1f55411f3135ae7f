package wiring

import (
	"opsgate/authn"
	"opsgate/gateway"
	"opsgate/ratelimit"
	"opsgate/ratelimit/heavyhitters"
)

// decisions passes each decision of the limiter to the sketch of the busiest tokens.
type decisions struct {
	busiest *heavyhitters.Sketch
}

var _ gateway.DecisionObserver = (*decisions)(nil)

// Decided implements [gateway.DecisionObserver].
func (o *decisions) Decided(p *authn.Principal, d *ratelimit.Decision) {
	o.busiest.Add(heavyhitters.Token{TokenID: p.TokenID, TeamID: p.TeamID, TokenName: p.TokenName, TeamName: p.TeamName()},
		!d.Allowed)
}
