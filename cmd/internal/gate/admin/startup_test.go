package admin

import (
	"testing"
	"time"

	"opsgate/backendclient"
)

func TestGatewayIsReadyOnceItHasReachedServices(t *testing.T) {
	start := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	wrong := map[string]bool{"audit": true}
	fleet, both := map[string]time.Time{"fleet": at(3)}, map[string]time.Time{"fleet": at(3), "audit": at(5)}
	for _, test := range []struct {
		name    string
		reached map[string]time.Time
		wrong   map[string]bool // services with another one at their address
		now     time.Time
		ready   bool
	}{
		{"nothing reached for a day", nil, nil, at(86400), false},
		{"one reached, and the others have time", fleet, nil, at(12), false},
		{"one reached ten seconds ago", fleet, nil, at(13), true},
		{"all reached", both, nil, at(5), true},
		{"another service at an address", fleet, wrong, at(86400), false},
		{"another service at one of the addresses", both, wrong, at(5), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s startup
			ready := func(reached map[string]time.Time, wrong map[string]bool) bool {
				services := []*Dependency{{Name: "audit"}, {Name: "fleet"}}
				for _, d := range services {
					if wrong[d.Name] {
						d.wrong = new(backendclient.WrongEndpoints)
					}
				}
				s.apply(services, reached, test.now)
				return !services[0].notReady && !services[1].notReady
			}
			if got := ready(test.reached, test.wrong); got != test.ready {
				t.Errorf("ready: %v, want %v", got, test.ready)
			}
			if test.ready && !ready(fleet, wrong) {
				t.Error("not ready any more, with a service that is wrong later")
			}
		})
	}
}
