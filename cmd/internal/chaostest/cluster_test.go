package chaostest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"opsgate/ratelimit/redisstore/redistest"
)

// A cluster is an installation as docs/scaling.md has it, on one machine: a balancer before two gateways, which count in one Redis, and
// three backends behind one name.
type cluster struct {
	redis    *redistest.Server
	backends []*backend
	gateways []*gateway
	balancer *gateway // what clients take for one
}

// drainWait is a few of the balancer's looks at /readyz.
const drainWait = 500 * time.Millisecond

func startCluster(t *testing.T, limits string) *cluster {
	t.Helper()
	c := &cluster{redis: redistest.Start(t, "--appendonly", "yes")}
	var name string
	c.backends, name = startReplicas(t, 3)
	config := inRedis(c.redis, limits+recorded) + fmt.Sprintf("shutdown: {drain_wait: %v}\n", drainWait)
	for range 2 {
		c.gateways = append(c.gateways, launchGateway(t, everyService(name), config))
	}
	for _, g := range c.gateways {
		g.waitUntilReady(t)
	}
	c.balancer = startBalancer(t, c.gateways)
	return c
}

// startBalancer runs HAProxy before gateways. It looks at /readyz, and tries again elsewhere what reached no gateway.
func startBalancer(t *testing.T, gateways []*gateway) *gateway {
	t.Helper()
	program, err := exec.LookPath("haproxy")
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("haproxy is needed: %v", err)
	default:
		t.Skip("haproxy is not installed")
	}
	address := fmt.Sprint("127.0.0.1:", redistest.FreePort(t))
	config := "defaults\n  mode http\n  timeout connect 5s\n  timeout check 10s\n  timeout client 30s\n  timeout server 30s\n" +
		"frontend public\n  bind " + address + "\n  default_backend gateways\n" +
		"backend gateways\n  balance roundrobin\n  option redispatch 1\n  option httpchk GET /readyz\n" +
		"  default-server check inter 100ms fall 1 rise 1\n"
	for i, g := range gateways {
		config += fmt.Sprintf("  server gateway%d %s port %s\n", i+1, strings.TrimPrefix(g.url, "http://"), port(t, strings.TrimPrefix(g.admin, "http://")))
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := launchCommand("haproxy", exec.Command(program, "-db", "-f", file))
	if err != nil {
		t.Fatal(err)
	}
	p.killed = true // it has nothing to end in order, and says so by its exit code
	t.Cleanup(func() {
		p.end(t)
		if t.Failed() {
			t.Log(p.log.String())
		}
	})
	balancer := &gateway{process: p, url: "http://" + address}
	eventually(t, "the balancer serves", func() bool {
		return fetch(t.Context(), http.DefaultClient, balancer.url+"/openapi.json", "").status == http.StatusOK
	})
	return balancer
}

// rolling is the row of what a cluster shows.
const clusterRow = "cluster"

// Everything of ours is restarted under load, one process after the other, and then Redis is killed and comes back. Nobody fails for
// it, and no limit gives way.
func TestRollingRestart(t *testing.T) {
	limited := tokens(t)["full"]
	c := startCluster(t, fmt.Sprintf("  limits: [{requests: 1000000, per: 1s}]\n  tokens:\n    %s: {limits: [{requests: 10, per: 1s}]}\n", limited.ID))
	var redisGone time.Time
	for _, phase := range []struct {
		name string
		does func()
	}{
		{"before", func() {}},
		{"while each backend restarts", func() {
			for _, b := range c.backends {
				b.end(t)
				b.restart(t)
			}
		}},
		{"while each gateway restarts", func() {
			for _, g := range c.gateways {
				g.end(t)
				g.restart(t)
			}
		}},
		{"while Redis restarts", func() {
			redisGone = time.Now()
			c.redis.Kill()
			eventually(t, "both notice", func() bool { _, none := storeModes(t, c.gateways); return none })
			c.redis.Restart()
			eventually(t, "both count in Redis again", func() bool { all, _ := storeModes(t, c.gateways); return all })
		}},
		{"after", func() {}},
	} {
		wait := c.load(t)
		phase.does()
		all := wait()
		noneFailed(t, clusterRow, all)
		report(t, clusterRow, "p99 "+phase.name, tenths(all.percentile(.99)), "")
		if len(all.to("full").refused()) == 0 {
			t.Errorf("%s: the limit was not pressed", phase.name)
		}
	}
	admitted := decisions(t, c.gateways)[limited.ID].admitted
	atMost(t, clusterRow, "admitted of one token in any second before Redis restarted",
		maxIn(during(admitted, time.Time{}, redisGone), time.Second), 10)
	// On a machine that is busy with other things one gateway may be long behind the other: then its part is beside the full limit.
	atMost(t, clusterRow, "and in any second since", maxIn(during(admitted, redisGone, time.Now()), time.Second), either(12, 15))
}

// load has clients ask the balancer for what a phase takes.
func (c *cluster) load(t *testing.T) (wait func() answers) {
	t.Helper()
	return load{
		gateways: []*gateway{c.balancer}, tokens: texts(t, "full", "read", "servers:read", "monitors:read", "incidents:read"),
		paths: reads(), rate: 200, clients: 32, duration: either(15*time.Second, 3*time.Second),
	}.start(t)
}
