package wiring

import (
	"opsgate/authn"
	"opsgate/gateway"
	"opsgate/ratelimit"
)

// observers is an observer that passes each decision to all of its elements.
type observers []gateway.DecisionObserver

var _ gateway.DecisionObserver = observers(nil)

// Decided implements [gateway.DecisionObserver].
func (o observers) Decided(p *authn.Principal, a *ratelimit.Assignment, d *ratelimit.Decision) {
	for _, observer := range o {
		observer.Decided(p, a, d)
	}
}
