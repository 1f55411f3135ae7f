package wiring_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/test/servicestest"
	"opsgate/ratelimit/redisstore/redistest"
)

func (r *running) gateways(t *testing.T) admin.Gateways {
	t.Helper()
	return getJSON[admin.Gateways](t, r, "/admin/gateways")
}

// row returns the row of a gateway; zero for none.
func (r *running) row(f admin.Gateways) (g admin.Gateway) {
	for _, g := range f.Gateways {
		if g.AdminListen == r.AdminAddress().String() {
			return g
		}
	}
	return g
}

func TestGatewayInMemoryIsAlone(t *testing.T) {
	r := start(t, limits(10))
	f := r.gateways(t)
	if len(f.Gateways) != 1 || f.State != admin.GatewaysMemory || f.ReadAt != nil || f.Error != "" {
		t.Fatalf("got %+v", f)
	}
	if g := f.Gateways[0]; !g.Self || g.Host != hostname(t) || g.Version != "1.2.3" || g.ConfigVersion == "" || g.ConfigSince == nil || g.Mode != "memory" ||
		g.AdminListen != r.AdminAddress().String() || g.HeardAt != nil || g.Breakers == nil || g.Up <= 0 {
		t.Errorf("got %+v", g)
	}
}

func hostname(t *testing.T) string {
	t.Helper()
	host, err := os.Hostname()
	testkit.Must(t, err)
	return host
}

// A gateway shows another one, with a changed configuration and a refused one, until it has ended.
func TestGatewaysShowEachOther(t *testing.T) {
	server, services := redistest.Start(t), servicestest.Start(t)
	first := startWith(t, services, inRedis(server.Addr(), 1000, ""))
	second := startWith(t, services, inRedis(server.Addr(), 1000, ""))
	testkit.Eventually(t, "the other one is shown", func() bool {
		f := first.gateways(t)
		return f.State == admin.GatewaysCurrent && len(f.Gateways) == 2 && second.row(f).Mode == "shared"
	})
	g := second.row(first.gateways(t))
	if g.Self || g.HeardAt == nil || g.Silent || g.Unknown || len(g.ID) != 8 || g.Version != "1.2.3" ||
		g.Host != hostname(t) || g.ModeSince == nil {
		t.Errorf("got %+v", g)
	}
	testkit.Must(t, second.reload(t, inRedis(server.Addr(), 2000, "")))
	if err := second.reload(t, "nonsense: 1\n"); err == nil {
		t.Fatal("accepted")
	}
	testkit.Eventually(t, "the new configuration and the refused one are shown", func() bool {
		now := second.row(first.gateways(t))
		return now.ConfigVersion != g.ConfigVersion && now.LimitsVersion != g.LimitsVersion && now.ConfigRefused
	})
	second.finish(t)
	testkit.Eventually(t, "it is not shown after it has ended", func() bool { return len(first.gateways(t).Gateways) == 1 })
}

// pinged matches a subscription of at least two seconds, in CLIENT LIST. A gateway pings after half a second.
var pinged = regexp.MustCompile(` age=([2-9]|\d\d+) .* sub=1 .* cmd=ping user=opsgate `)

// The rule of docs/operate/limits.md is all that a gateway needs. With a rule from before gateways shared their statuses, limits work, and the page shows why
// others are not shown.
func TestUserOfRedisNeedsTheDocumentedRule(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash("../../../../docs/operate/limits.md"))
	testkit.Must(t, err)
	found := regexp.MustCompile(`(?s)ACL SETUSER opsgate on >PASSWORD (.*?)\n\n`).FindSubmatch(text)
	if found == nil {
		t.Fatal("no rule in docs/operate/limits.md")
	}
	documented := strings.Fields(string(found[1]))
	before := slices.DeleteFunc(slices.Clone(documented), func(word string) bool {
		return slices.Contains([]string{"+hset", "+hdel", "+hlen", "+hgetall", "+zrange", "+info"}, word)
	})
	for name, rule := range map[string][]string{"documented": documented, "before statuses were shared": before} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, append([]string{
				"--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru", "--user", "opsgate", "on", ">PASSWORD",
			}, rule...)...)
			secret := filepath.Join(t.TempDir(), "redis")
			testkit.Must(t, os.WriteFile(secret, []byte("PASSWORD"), 0o600))
			r := start(t, fmt.Sprintf("rate_limit:\n  store: redis\n  limits: [{requests: 1000000, per: 1m}]\n"+
				"  redis: {addresses: [%q], timeout: 5s, username: opsgate, password: \"${file:%s}\"}\n", server.Addr(), secret))
			testkit.Eventually(t, "the first heartbeat is sent", func() bool { return server.Client().Exists(t.Context(), "opsgate:replicas").Val() == 1 })
			var subscriptions string
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("subscriptions: %s", subscriptions)
				}
			})
			testkit.Eventually(t, "a subscription lasts longer than the interval of pings, and was pinged", func() bool {
				subscriptions = server.Client().Do(t.Context(), "CLIENT", "LIST", "TYPE", "PUBSUB").String()
				return pinged.MatchString(subscriptions)
			})
			if got := r.get(t, r.Address(), "/v1/servers"); got.status != 200 || r.store(t).Mode != "shared" {
				t.Errorf("got %+v, %+v", got, r.store(t))
			}
			if n := r.store(t).EvictingServers; (n == 1) != (name == "documented") {
				t.Errorf("%d servers evict keys", n)
			}
			f := r.gateways(t)
			if name == "documented" && (f.State != admin.GatewaysCurrent || f.Error != "") ||
				name != "documented" && (f.State != admin.GatewaysStale || !strings.Contains(f.Error, "the ACL of Redis denies")) {
				t.Errorf("got %+v", f)
			}
			r.finish(t)
			if n := server.Client().Exists(t.Context(), "opsgate:replicas", "opsgate:gateways").Val(); n != 0 {
				t.Error("it did not remove itself")
			}
			if denied := fmt.Sprint(server.Client().Do(t.Context(), "ACL", "LOG").Val()); name == "documented" && denied != "[]" {
				t.Errorf("Redis denied %s", denied)
			}
		})
	}
}
