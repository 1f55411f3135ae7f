package chaos

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	ejections        = `opsgate_upstream_ejections_total{service="fleet"}`
	ejectedEndpoints = `opsgate_upstream_endpoints{service="fleet",state="ejected"}`
	endpointsInUse   = `opsgate_upstream_endpoints{service="fleet",state="ready"}`

	// mostBeforeEjection bounds the requests that fail before a failing endpoint is ejected: five, and those that are in flight at it then.
	mostBeforeEjection = 5 + concurrent/2
	// concurrent is the number of clients, half of which may wait for either of two endpoints.
	concurrent = 16
)

// startEndpoints runs a gateway whose fleet service has two endpoints: the shared backend and another one. It returns a load of the service.
func startEndpoints(t *testing.T, other string) (*gateway, load) {
	t.Helper()
	behind := everyService(shared.address)
	behind.fleet = "static:///" + shared.address + "," + other
	g := startGateway(t, behind, fmt.Sprintf("http: {request_timeout: %v}\nauthn: {lookup_timeout: 900ms}\n", either(time.Second, 10*time.Second))+unlimited)
	l := load{gateways: []*gateway{g}, rate: 100, clients: concurrent}
	noneFailed(t, l.during(t, time.Second))
	return g, l
}

// One of two endpoints of a service fails every call, or does not respond. It is ejected, and each end of an ejection costs less than the
// first one.
func TestFailingEndpointIsEjected(t *testing.T) {
	skipIfShort(t)
	for _, test := range []struct {
		name   string
		status int
		again  int // bound of the requests that fail at the end of an ejection: one, and those that are in flight at it then
		start  func(t *testing.T) (address string, fail func())
	}{
		{"answers Internal", http.StatusInternalServerError, either(4, 1+concurrent/2), func(t *testing.T) (string, func()) {
			t.Helper()
			var fails atomic.Bool
			return startFake(t, func(context.Context) error {
				if fails.Load() {
					return status.Error(codes.Internal, "disk full")
				}
				return status.Error(codes.NotFound, "none")
			}), func() { fails.Store(true) }
		}},
		{"is frozen", http.StatusGatewayTimeout, 1 + concurrent/2, func(t *testing.T) (string, func()) {
			t.Helper()
			b := startBackend(t)
			t.Cleanup(func() { b.Thaw(t) })
			return b.address, func() { b.Freeze(t) }
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			parallel(t)
			address, fail := test.start(t)
			g, l := startEndpoints(t, address)
			ejected := func(n float64) func() bool { return func() bool { return g.metric(t, ejections) >= n } }
			const first, again = "ejected", "ejected again"
			all := l.through(t,
				phase{first, fail, ejected(1), either(5*time.Second, time.Second)},
				phase{again, nil, ejected(2), either(5*time.Second, time.Second)},
			)
			expectNone(t, test.name+": other statuses", len(all.except(http.StatusNotFound, test.status)))
			atMost(t, test.name+": requests that failed until it was ejected", len(all.all(first).failed()), mostBeforeEjection)
			expectNone(t, fmt.Sprintf("%s: failed of %d while it was ejected", test.name, len(all.in(first))), len(all.in(first).failed()))
			atMost(t, test.name+": failed until it was ejected again", len(all.all(again).failed()), test.again)
			expectNone(t, fmt.Sprintf("%s: failed of %d from then on", test.name, len(all.in(again))), len(all.in(again).failed()))
			report(t, test.name+": until it was ejected", tenths(all.took(first)), "–")
		})
	}
}

// One of two endpoints of a service is slow. No request fails, few wait, and it is not ejected.
func TestSlowEndpointGetsFewCalls(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	slow := newLink(t, shared.address)
	g, l := startEndpoints(t, slow.address())
	latency := either(500*time.Millisecond, 2*time.Second)
	slow.addToxic(t, fmt.Sprintf(`{"type": "latency", "attributes": {"latency": %d}}`, latency.Milliseconds()))
	all := l.during(t, either(20*time.Second, 4*time.Second))
	noneFailed(t, all)
	waited := len(all.filter(func(a response) bool { return a.took-a.late >= latency }))
	atMost(t, fmt.Sprintf("one of two takes %v: requests of %d that waited for it", latency, len(all)), waited, len(all)/either(10, 4))
	expectNone(t, "ejections of it", int(g.metric(t, ejections)))
}
