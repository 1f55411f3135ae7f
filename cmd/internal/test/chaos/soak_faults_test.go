package chaos

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"opsgate/internal/testkit"
	"opsgate/internal/testkit/dnstest"
)

// fault is injected and repaired.
type fault struct {
	name           string
	inject, repair func()
}

// faultWindow is the time from the injection of a fault until the system is healthy again.
type faultWindow struct {
	name                string
	from, repaired, end time.Time
}

// faults returns all faults. Each part of the soak runs each of them once, in random order.
func (s *soak) faults(t *testing.T) []fault {
	t.Helper()
	target := s.random.IntN(len(s.replicas)) // of this part
	b, w := s.replicas[target], s.links[target]
	restart, restore, nothing := func() { b.restart(t) }, func() { s.restore(t) }, func() {}
	impaired := func(what string, w *link, toxic string) fault {
		return fault{what, func() { w.addToxic(t, toxic) }, func() { w.removeToxics(t) }}
	}
	return []fault{
		{"a backend killed", func() { b.Kill() }, restart},
		{"a backend frozen", func() { b.Freeze(t) }, func() { b.Thaw(t) }},
		{"a backend restarted", func() { b.End(t) }, restart},
		{"all backends killed", func() { s.killAll(t) }, func() { s.restartAll(t) }},
		{"a link cut", w.cut, func() { w.reconnect(t) }},
		impaired("a slow link", w, `{"type": "latency", "attributes": {"latency": 300, "jitter": 100}}`),
		impaired("a link reset", w, `{"type": "reset_peer", "attributes": {"timeout": 50}}`),
		impaired("truncated responses", w, `{"type": "limit_data", "attributes": {"bytes": 20000}}`),
		{"Redis killed", s.redis.Kill, s.redis.Restart},
		{"Redis frozen", s.redis.Pause, s.redis.Resume},
		{"Redis emptied", s.redis.Flush, nothing},
		{"the link to Redis cut", s.redisLink.cut, func() { s.redisLink.reconnect(t) }},
		impaired("a slow link to Redis", s.redisLink, `{"type": "latency", "attributes": {"latency": 800}}`),
		{"configuration changed", func() { configure(t, s.gateways, s.config(900_000, "http: {body_timeout: 4s}\n"), true) }, restore},
		{"invalid configuration", func() { mistake(t, s.gateways, s.config(1_000_000, "rate_limits: {}\n"), false) }, restore},
		{"certificate replaced", func() { s.public.replace(t, time.Now().UnixNano()) }, nothing},
	}
}

func (s *soak) killAll(t *testing.T) {
	t.Helper()
	for _, b := range s.replicas {
		b.Kill()
	}
}

func (s *soak) restartAll(t *testing.T) {
	t.Helper()
	for _, b := range s.replicas {
		b.restart(t)
	}
}

func (s *soak) restore(t *testing.T) {
	t.Helper()
	configure(t, s.gateways, s.config(1_000_000, ""), false)
	testkit.Eventually(t, "both have the valid configuration", func() bool { return sum(t, s.gateways, lastReload) == len(s.gateways) })
}

// run injects a fault, repairs it, and returns when the system is healthy again.
func (s *soak) run(t *testing.T, f fault, duration time.Duration) {
	t.Helper()
	now := faultWindow{name: f.name, from: time.Now()}
	f.inject()
	sleep(t, duration-time.Since(now.from))
	f.repair()
	now.repaired = time.Now()
	testkit.Eventually(t, "the system is healthy after "+f.name, func() bool { return s.isHealthy(t) })
	now.end = time.Now()
	s.windows = append(s.windows, now)
	t.Logf("%s  %-26s healthy after %v", now.from.Format(time.TimeOnly), f.name, tenths(now.end.Sub(now.repaired)))
}

// isHealthy reports whether both gateways are ready with all dependencies.
func (s *soak) isHealthy(t *testing.T) bool {
	t.Helper()
	for _, g := range s.gateways {
		if !strings.Contains(g.get(t, "/readyz"), `"status":"ready"`) || !g.isConnected(t) {
			return false
		}
	}
	return true
}

// isConnected reports whether all breakers are closed, Redis is in use, the last reload succeeded
// and the revocation stream is connected.
func (g *gateway) isConnected(t *testing.T) bool {
	t.Helper()
	metrics := g.get(t, "/metrics")
	for _, service := range []string{"fleet", "monitoring", "incident", "audit", "identity"} {
		if !strings.Contains(metrics, fmt.Sprintf("opsgate_upstream_breaker_state{service=%q,state=\"closed\"} 1\n", service)) {
			return false
		}
	}
	return strings.Contains(metrics, `opsgate_rate_limit_store_mode{mode="shared"} 1`+"\n") &&
		strings.Contains(metrics, lastReload+" 1\n") && strings.Contains(metrics, "opsgate_authn_revocation_stream_connected 1\n")
}

// startBehindLinks runs backends with shared data, each behind its own link, and returns the DNS
// target of the links.
func startBehindLinks(t *testing.T, n int) (replicas []*backend, links []*link, name string) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	var hosts []string
	near := port(t, testkit.FreeAddress(t))
	for i := 1; i <= n; i++ {
		b := startBackendAt(t, testkit.FreeAddress(t), data)
		w := newLinkAt(t, fmt.Sprintf("127.0.0.%d:%s", i, near), b.address)
		replicas, links, hosts = append(replicas, b), append(links, w), append(hosts, host(t, w.address()))
	}
	return replicas, links, "dns://" + dnstest.Start(t, dnstest.Addresses(hosts...)).Address + "/backend.test:" + near
}
