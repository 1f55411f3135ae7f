package admin

import (
	"sync/atomic"
	"time"
)

// startupWait is how long a gateway that has reached a service waits for the others before it is
// ready without them.
const startupWait = 10 * time.Second

// A startup makes a gateway not ready until it can serve requests, so that a rollout with a wrong
// address, TLS name or network policy does not replace gateways that work. It is not ready until it
// has reached a first service, however long that takes. Then it waits until it has reached all
// services, or for startupWait, and longer while another service answers at the address of one that
// it has never reached.
//
// A gateway that was ready once stays ready: an outage of services must not take all gateways out
// of a balancer.
type startup struct{ completed atomic.Bool }

// apply makes the services not ready for which the gateway waits. reached is when each service was
// first reached, by name.
func (s *startup) apply(services []*Dependency, reached map[string]time.Time, now time.Time) {
	if s.completed.Load() {
		return
	}
	var first time.Time
	for _, at := range reached {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	waits, completed := first.IsZero() || now.Before(first.Add(startupWait)), true
	for _, d := range services {
		if _, found := reached[d.Name]; !found && (waits || d.wrong != nil) {
			d.notReady, completed = true, false
		}
	}
	s.completed.Store(completed)
}
