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
	ejections      = `opsgate_upstream_ejections_total{service="fleet"}`
	endpointsInUse = `opsgate_upstream_endpoints{service="fleet",state="ready"}`

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

// One of two endpoints of a service fails every call. It is ejected, and each end of an ejection costs less than the first one.
func TestFailingEndpointIsEjected(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	var fails atomic.Bool
	g, l := startEndpoints(t, startFake(t, func(context.Context) error {
		if fails.Load() {
			return status.Error(codes.Internal, "disk full")
		}
		return status.Error(codes.NotFound, "none")
	}))
	ejected := func(n float64) func() bool { return func() bool { return g.metric(t, ejections) >= n } }
	const first, again = "ejected", "ejected again"
	all := l.through(t,
		phase{first, func() { fails.Store(true) }, ejected(1), either(5*time.Second, time.Second)},
		phase{again, nil, ejected(2), either(5*time.Second, time.Second)},
	)
	expectNone(t, "other statuses", len(all.except(http.StatusNotFound, http.StatusInternalServerError)))
	atMost(t, "requests that failed until it was ejected", len(all.all(first).failed()), mostBeforeEjection)
	expectNone(t, fmt.Sprintf("failed of %d while it was ejected", len(all.in(first))), len(all.in(first).failed()))
	// One fails at the end of an ejection, and those that are in flight at it then.
	atMost(t, "failed until it was ejected again", len(all.all(again).failed()), either(4, 1+concurrent/2))
	expectNone(t, fmt.Sprintf("failed of %d from then on", len(all.in(again))), len(all.in(again).failed()))
	report(t, "until it was ejected", tenths(all.took(first)), "–")
}

// One of two endpoints of a service is frozen. It gets no new calls until it continues.
func TestFrozenEndpointGetsNoNewCalls(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	b := startBackend(t)
	g, l := startEndpoints(t, b.address)
	inUse := func(n float64) func() bool { return func() bool { return g.metric(t, endpointsInUse) == n } }
	const frozen, thawed = "ejected", "in use again"
	all := l.through(t,
		phase{frozen, func() { b.Freeze(t) }, inUse(1), either(30*time.Second, 2*time.Second)},
		phase{thawed, func() { b.Thaw(t) }, inUse(2), either(5*time.Second, time.Second)},
	)
	expectNone(t, "other statuses", len(all.except(http.StatusNotFound, http.StatusGatewayTimeout)))
	atMost(t, "requests that failed until it was ejected", len(all.all(frozen).failed()), mostBeforeEjection)
	expectNone(t, fmt.Sprintf("failed of %d while it was ejected", len(all.in(frozen))), len(all.in(frozen).failed()))
	expectNone(t, "failed when it continued", len(all.all(thawed).failed()))
	within(t, "until it was in use again", all.took(thawed), 12*time.Second)
}

// One of two endpoints of a service is slow. No request fails, few wait, and it is not ejected.
func TestSlowEndpointGetsFewCalls(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	slow := newLink(t, shared.address)
	g, l := startEndpoints(t, slow.address())
	latency := either(500*time.Millisecond, 900*time.Millisecond)
	slow.addToxic(t, fmt.Sprintf(`{"type": "latency", "attributes": {"latency": %d}}`, latency.Milliseconds()))
	all := l.during(t, either(20*time.Second, 4*time.Second))
	noneFailed(t, all)
	waited := len(all.filter(func(a response) bool { return a.took-a.late >= latency }))
	atMost(t, fmt.Sprintf("one of two takes %v: requests of %d that waited for it", latency, len(all)), waited, len(all)/either(10, 4))
	expectNone(t, "ejections of it", int(g.metric(t, ejections)))
}
