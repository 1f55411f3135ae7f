package wiring_test

import (
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

// A gate is a listener that closes connections until it is opened.
type gate struct {
	net.Listener

	opened atomic.Bool
}

// Accept implements [net.Listener].
func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil || g.opened.Load() {
			return conn, err
		}
		_ = conn.Close()
	}
}

// unavailable returns the names of the dependencies that are not OK in the metrics.
func (r *running) unavailable(t *testing.T) string {
	t.Helper()
	var names []string
	for _, found := range regexp.MustCompile(`(?m)^opsgate_dependency_ok\{dependency="(\w+)"\} 0$`).
		FindAllStringSubmatch(r.get(t, r.AdminAddress(), "/metrics").body, -1) {
		names = append(names, found[1])
	}
	return strings.Join(names, " ")
}

// A gateway that starts in an outage serves what needs no dependency, and reports the others with
// the reason. It is not ready until it reaches services, uses each dependency once it is available,
// and is still ready in the next outage.
func TestGatewayStartsInAnOutage(t *testing.T) {
	redis := redistest.Start(t)
	redis.Kill()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	behind := &gate{Listener: listener}
	services := servicestest.Start(t)
	services.Sends, services.Address = true, listener.Addr().String()
	stop := services.Serve(t, behind)
	// Without breakers: the breaker of identity would close after three lookups, and the only token
	// is cached after the first.
	const noBreakers = "upstream_calls: {breaker: {min_requests: 100000}}\n"
	r := startWith(t, services, inRedis(redis.Addr(), 1000, noBreakers))
	for path, status := range map[string]int{"/openapi.json": 200, "/nowhere": 404, "/v1/servers": 503} {
		r.mustGet(t, path, status)
	}
	testkit.Eventually(t, "all are reported unavailable", func() bool {
		return r.unavailable(t) == "audit fleet identity incident monitoring redis revocations"
	})
	const reason = "not HTTP/2: the service closes the connection; it may require TLS"
	testkit.Eventually(t, "the gateway is not ready for that reason", func() bool {
		got := r.readiness(t, "not_ready")
		return got.status == 503 && strings.Count(got.body, reason) == 5
	})
	if line := r.await(t, "internal service is unavailable"); line["reason"] != reason || line["error"] == "" {
		t.Errorf("logged %v", line)
	}

	behind.opened.Store(true)
	testkit.Eventually(t, "only Redis is reported unavailable", func() bool { return r.unavailable(t) == "redis" })
	r.mustAdmit(t, 1000)
	r.mustHaveMetric(t, `opsgate_readiness{state="degraded"}`, "1")

	redis.Restart()
	r.readiness(t, "ready")
	if missing, ready := r.unavailable(t), r.metric(t, `opsgate_readiness{state="ready"}`); missing != "" || ready != "1" {
		t.Errorf("ready in the metrics: %q, unavailable: %q", ready, missing)
	}
	stop()
	testkit.Eventually(t, "in a later outage the gateway is ready, with the reason", func() bool {
		got := r.readiness(t, "degraded")
		return got.status == 200 && strings.Contains(got.body, "connection refused")
	})
}
