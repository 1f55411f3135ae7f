package wiring

import (
	"opsgate/authn"
	"opsgate/gateway"
	"opsgate/ratelimit"
	"opsgate/ratelimit/heavyhitters"
)

// busiestTokens counts each decision of the limiter, by token.
type busiestTokens struct{ sketch *heavyhitters.Sketch }

var _ gateway.DecisionObserver = busiestTokens{}

// Decided implements [gateway.DecisionObserver].
func (b busiestTokens) Decided(p *authn.Principal, d *ratelimit.Decision) {
	b.sketch.Add(heavyhitters.Token{
		TokenID: p.TokenID, TeamID: p.TeamID, TokenName: p.TokenName, TeamName: p.TeamName(), LimitClass: p.LimitClass,
	}, !d.Allowed)
}
