package edge

import (
	"opsgate/authn"
	"opsgate/gateway"
	"opsgate/ratelimit"
)

// An audience is told of every decision.
type audience []gateway.DecisionObserver

var _ gateway.DecisionObserver = audience(nil)

// Decided implements [gateway.DecisionObserver].
func (all audience) Decided(p *authn.Principal, a *ratelimit.Assignment, d *ratelimit.Decision) {
	for _, one := range all {
		one.Decided(p, a, d)
	}
}
