package edge_test

import (
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"opsgate/ratelimit/redisstore/redistest"
)

// A gate is a listener whose callers find nobody before it is opened.
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

// lacks returns what the metrics say that a gateway lacks, by name.
func (r *reloading) lacks(t *testing.T) string {
	t.Helper()
	var names []string
	for _, found := range regexp.MustCompile(`(?m)^opsgate_dependency_ok\{dependency="(\w+)"\} 0$`).
		FindAllStringSubmatch(r.get(t, r.AdminAddress(), "/metrics").body, -1) {
		names = append(names, found[1])
	}
	return strings.Join(names, " ")
}

// A gateway that starts in an outage serves what needs nobody, says what it lacks, and uses each as it comes.
func TestGatewayStartsInAnOutage(t *testing.T) {
	redis := redistest.Start(t)
	redis.Kill()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	behind := &gate{Listener: listener}
	services := serve(t, behind)
	services.tells = true
	// Without breakers: that of identity would wait for three look-ups, and the one token is remembered after the first.
	const noBreakers = "upstream_calls: {breaker: {min_requests: 100000}}\n"
	r := reloadingGateway(t, services, inRedis(redis.Addr(), 1000, noBreakers))
	for path, status := range map[string]int{"/openapi.json": 200, "/nowhere": 404, "/v1/servers": 503} {
		if got := r.get(t, r.Address(), path); got.status != status {
			t.Errorf("%s: got %+v", path, got)
		}
	}
	eventually(t, "all are told to be away", func() bool {
		return r.lacks(t) == "audit fleet identity incident monitoring redis revocations"
	})

	behind.opened.Store(true)
	eventually(t, "Redis alone is told to be away", func() bool { return r.lacks(t) == "redis" })
	r.mustAdmit(t, 1000)
	if got := r.metric(t, `opsgate_readiness{state="degraded"}`); got != "1" {
		t.Errorf("degraded by the metrics: %q", got)
	}

	redis.Restart()
	r.readiness(t, "ready")
	if lacks, ready := r.lacks(t), r.metric(t, `opsgate_readiness{state="ready"}`); lacks != "" || ready != "1" {
		t.Errorf("ready by the metrics: %q, without %q", ready, lacks)
	}
	r.finish(t)
}
