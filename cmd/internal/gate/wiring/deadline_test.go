package wiring_test

import (
	"crypto/rand"
	"fmt"
	"net"
	"testing"
	"time"

	"opsgate/authn"
	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/testkit"
	"opsgate/internal/testkit/dnstest"
)

// A hang is something that a request waits for in vain.
type hang struct {
	name     string
	config   string
	variable string
	services func(*servicestest.Services)
	before   func(*testing.T, *running)
	status   int // of the response; 200 if the request goes on without it
}

// silent returns the address of a listener that accepts connections and sends nothing.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts connections
	testkit.Must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func hangs(t *testing.T) []hang {
	t.Helper()
	lookups := func(s *servicestest.Services) { s.Hangs.Store(true) }
	calls := func(s *servicestest.Services) { s.Arrived, s.Release = make(chan struct{}, 100), make(chan struct{}) }
	redis := fmt.Sprintf("rate_limit: {store: redis, redis: {addresses: [%q], timeout: 150ms}}\n", silent(t))
	const identity, fleet = "OPSGATE_UPSTREAMS_IDENTITY_ADDRESS=", "OPSGATE_UPSTREAMS_FLEET_ADDRESS="
	return []hang{
		{name: "lookup of the token", services: lookups, status: 504},
		{name: "lookup in the queue", services: lookups, config: "authn: {max_lookups: 1}\n", before: lookUpAnother, status: 503},
		{name: "connection to the identity service", variable: identity + silent(t), status: 504},
		{name: "Redis", config: redis, status: 200},
		{name: "Redis, then the service", config: redis, services: calls, status: 504},
		{name: "service", services: calls, status: 504},
		{name: "connection to the service", variable: fleet + silent(t), status: 504},
		{name: "name of the service", variable: fleet + "dns://" + dnstest.Start(t, nil).Address + "/fleet.example:1", status: 504},
	}
}

// lookUpAnother sends a request with another token and returns when its lookup is in flight.
func lookUpAnother(t *testing.T, r *running) {
	t.Helper()
	token, err := authn.TokenFormat{Prefix: "ops_"}.New(rand.Reader)
	testkit.Must(t, err)
	go func() {
		if got, err := r.send(r.Address(), "/v1/me", token); err == nil {
			_ = got.Body.Close()
		}
	}()
	testkit.Eventually(t, "its lookup is in flight", func() bool {
		return r.metric(t, `opsgate_authn_lookups_in_flight{token="unknown"}`) == "1"
	})
}

// Whatever a request waits for, it is answered by its deadline. A busy machine may delay a
// response, but not each of them.
func TestEveryHangEndsByTheDeadlineOfTheRequest(t *testing.T) {
	const deadline, tolerance, attempts = 300 * time.Millisecond, 100 * time.Millisecond, 5
	for _, h := range hangs(t) {
		t.Run(h.name, func(t *testing.T) {
			services := servicestest.Start(t)
			if h.services != nil {
				h.services(services)
			}
			config := fmt.Sprintf("routes: {v1ListServers: {timeout: %v}}\nupstream_calls: {breaker: {min_requests: 1000}}\n", deadline)
			r := startWith(t, services, config+h.config, h.variable)
			if h.before != nil {
				h.before(t, r)
			}
			var took time.Duration
			for range attempts {
				began := time.Now()
				r.mustGet(t, "/v1/servers", h.status)
				if took = time.Since(began); took < deadline+tolerance {
					break
				}
			}
			if took > deadline+tolerance || took < deadline-tolerance && h.status != 200 {
				t.Errorf("answered after %v, in the last of %d attempts", took, attempts)
			}
		})
	}
}
