package wiring

import (
	"opsgate/authn"
	"opsgate/gateway"
	"opsgate/ratelimit"
	"opsgate/ratelimit/heavyhitters"
)

// observers is an observer that passes each decision to all of its elements.
type observers []gateway.DecisionObserver

var _ gateway.DecisionObserver = observers(nil)

// Decided implements [gateway.DecisionObserver].
func (o observers) Decided(operation string, p *authn.Principal, a *ratelimit.Assignment, d *ratelimit.Decision) {
	for _, observer := range o {
		observer.Decided(operation, p, a, d)
	}
}

// busyTokens counts the requests of each token.
type busyTokens struct{ sketch *heavyhitters.Sketch }

// Decided implements [gateway.DecisionObserver].
func (b busyTokens) Decided(_ string, p *authn.Principal, _ *ratelimit.Assignment, d *ratelimit.Decision) {
	b.sketch.Add(p.TokenID, p.TeamID, !d.Allowed)
}
