package chaostest

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// A fault is something that breaks and is mended again.
type fault struct {
	name           string
	inject, repair func()
}

// A faultWindow is the time from when something was broken until nobody noticed it any more.
type faultWindow struct {
	name                string
	from, repaired, end time.Time
}

// faults are the faults: each part of the soak has every one of them once, in an order of its own.
func (s *soak) faults(t *testing.T) []fault {
	t.Helper()
	victim := s.random.IntN(len(s.replicas)) // the faults is made anew for each part
	b, w := s.replicas[victim], s.links[victim]
	restart, restore, still := func() { b.restart(t) }, func() { s.restore(t) }, func() {}
	spoilt := func(what string, w *link, toxic string) fault {
		return fault{what, func() { w.addToxic(t, toxic) }, func() { w.removeToxics(t) }}
	}
	return []fault{
		{"a backend killed", func() { b.kill(t) }, restart},
		{"a backend frozen", func() { b.freeze(t) }, func() { b.thaw(t) }},
		{"a backend restarted", func() { b.end(t) }, restart},
		{"all backends killed", func() { s.killAll(t) }, func() { s.restartAll(t) }},
		{"a wire cut", w.cut, func() { w.reconnect(t) }},
		spoilt("a wire slow", w, `{"type": "latency", "attributes": {"latency": 300, "jitter": 100}}`),
		spoilt("a wire reset", w, `{"type": "reset_peer", "attributes": {"timeout": 50}}`),
		spoilt("half of each answer", w, `{"type": "limit_data", "attributes": {"bytes": 20000}}`),
		{"Redis killed", s.redis.Kill, s.redis.Restart},
		{"Redis frozen", s.redis.Pause, s.redis.Resume},
		{"Redis emptied", s.redis.Flush, still},
		{"the wire to Redis cut", s.redisLink.cut, func() { s.redisLink.reconnect(t) }},
		spoilt("the wire to Redis slow", s.redisLink, `{"type": "latency", "attributes": {"latency": 800}}`),
		{"configuration changed", func() { configure(t, s.gateways, s.config(900_000, "http: {body_timeout: 4s}\n"), true) }, restore},
		{"configuration wrong", func() { mistake(t, s.gateways, s.config(1_000_000, "rate_limits: {}\n"), false) }, restore},
		{"certificate replaced", func() { s.public.replace(t, time.Now().UnixNano()) }, still},
		{"a token revoked", func() { s.revoke(t) }, still},
		{"a crowd that hangs up", func() { s.hangUpBurst(t) }, still},
	}
}

func (s *soak) killAll(t *testing.T) {
	t.Helper()
	for _, b := range s.replicas {
		b.kill(t)
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
	eventually(t, "both have the right configuration", func() bool { return sum(t, s.gateways, lastReload) == len(s.gateways) })
}

// revoke revokes a token in use, and notes how long both gateways went on to take it.
func (s *soak) revoke(t *testing.T) {
	t.Helper()
	token := createToken(t, s.replicas[0].data)
	all := func(status int) bool {
		for _, g := range s.gateways {
			if got, _ := me(t.Context(), s.client, g.secure(), token.Text); got != status {
				return false
			}
		}
		return true
	}
	eventually(t, "both take a new token", func() bool { return all(http.StatusOK) })
	revokeToken(t, s.replicas[0].data, token.ID)
	s.revoked = max(s.revoked, eventually(t, "both refuse a revoked token", func() bool { return all(http.StatusUnauthorized) }))
}

// crowd has clients come, each with a connection of its own, and leave before they are served.
func (s *soak) hangUpBurst(t *testing.T) {
	t.Helper()
	const come = 200
	var left sync.WaitGroup
	for i := range come {
		left.Go(func() {
			client := s.newClient(i / 2)
			defer client.CloseIdleConnections()
			s.send(t.Context(), client, s.gateways[i%len(s.gateways)], soakRequest{
				method: http.MethodGet, path: "/v1/servers", token: s.tokens["full"], hangUpAfter: time.Duration(i) * 50 * time.Microsecond,
			})
		})
	}
	left.Wait()
}

// suffer has a fault happen, and returns when nobody notices any more that it did.
func (s *soak) run(t *testing.T, f fault, duration time.Duration) {
	t.Helper()
	now := faultWindow{name: f.name, from: time.Now()}
	f.inject()
	sleep(t, duration-time.Since(now.from))
	f.repair()
	now.repaired = time.Now()
	eventually(t, "all is well again after "+f.name, func() bool { return s.isHealthy(t) })
	now.end = time.Now()
	s.windows = append(s.windows, now)
	t.Logf("%s  %-26s well after %v", now.from.Format(time.TimeOnly), f.name, tenths(now.end.Sub(now.repaired)))
}

// isHealthy says whether both gateways have everything that they need.
func (s *soak) isHealthy(t *testing.T) bool {
	t.Helper()
	for _, g := range s.gateways {
		if !strings.Contains(g.get(t, "/readyz"), `"status":"ready"`) || !g.isConnected(t) {
			return false
		}
	}
	return true
}

// isConnected says whether all breakers are closed, Redis is asked, the configuration is in force and revocations are heard of.
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

// startBehindLinks runs backends that share their data, each behind a wire of its own, and returns the name by which DNS knows the
// near ends of the links.
func startBehindLinks(t *testing.T, n int) (replicas []*backend, links []*link, name string) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	var hosts []string
	near := "0"
	for i := 1; i <= n; i++ {
		b := startBackendAt(t, "127.0.0.1:0", data)
		w := newLinkAt(t, fmt.Sprintf("127.0.0.%d:%s", i, near), b.address)
		near = port(t, w.address())
		replicas, links, hosts = append(replicas, b), append(links, w), append(hosts, host(t, w.address()))
	}
	return replicas, links, "dns://" + startResolver(t, hosts...).address + "/backend.test:" + near
}

// newLinkAt lays a wire from one address to another.
func newLinkAt(t *testing.T, from, to string) *link {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	w := &link{proxy: toxiproxy.NewProxy(server, to, from, to)}
	w.reconnect(t)
	t.Cleanup(w.cut)
	return w
}
