package chaos

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/test/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

// cluster is the installation of docs/operate/scaling.md on one machine: a load balancer, two gateways that share a Redis, and three
// backends behind one DNS name.
type cluster struct {
	redis    *redistest.Server
	backends []*backend
	gateways []*gateway
	balancer *gateway // its url is the load balancer's
}

// drainWait is a few intervals of the load balancer's health check.
const drainWait = 500 * time.Millisecond

func startCluster(t *testing.T, limits string) *cluster {
	t.Helper()
	c := &cluster{redis: redistest.Start(t, "--appendonly", "yes")}
	var name string
	c.backends, name = startReplicas(t, 3)
	config := inRedis(c.redis, limits+recorded) + fmt.Sprintf("shutdown: {drain_wait: %v}\n", drainWait)
	c.gateways = startPair(t, "opsgate", everyService(name), config)
	c.balancer = startBalancer(t, c.gateways, "")
	return c
}

// startBalancer runs HAProxy in front of gateways, with additional options of its connections to them. It checks /readyz, and retries
// failed connections on another gateway.
func startBalancer(t *testing.T, gateways []*gateway, options string) *gateway {
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
		config += fmt.Sprintf("  server gateway%d %s port %s%s\n", i+1, g.socket(), port(t, strings.TrimPrefix(g.admin, "http://")), options)
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	p := testkit.Start(t, exec.Command(program, "-db", "-f", file))
	p.MayFail() // its exit code is not 0
	balancer := &gateway{Process: p, url: "http://" + address}
	eventually(t, "the balancer serves", func() bool {
		return fetch(t.Context(), http.DefaultClient, balancer.url+"/openapi.json", "").status == http.StatusOK
	})
	return balancer
}

// clusterRow is the row of the cluster test, which has no number.
const clusterRow = "cluster"

// Each backend and gateway is restarted under load, one after the other, then Redis is killed and restarted. No request fails, and
// the limits hold.
func TestRollingRestart(t *testing.T) {
	skipIfShort(t)
	limited := tokens(t)["full"]
	c := startCluster(t, fmt.Sprintf("  limits: [{requests: 1000000, per: 1s}]\n  tokens:\n    %s: {limits: [{requests: 10, per: 1s}]}\n", limited.ID))
	var redisGone time.Time
	for _, phase := range []struct {
		name string
		run  func()
	}{
		{"before", func() {}},
		{"while each backend restarts", func() {
			for _, b := range c.backends {
				b.End(t)
				b.restart(t)
			}
		}},
		{"while each gateway restarts", func() {
			for _, g := range c.gateways {
				g.End(t)
				g.restart(t)
			}
		}},
		{"while Redis restarts", func() {
			redisGone = time.Now()
			c.redis.Kill()
			eventually(t, "both are in local mode", local(t, c.gateways))
			c.redis.Restart()
			eventually(t, "both count in Redis again", counted(t, c.gateways))
		}},
		{"after", func() {}},
	} {
		c.underLoad(t, phase.name, phase.run)
	}
	admitted := decisions(t, c.gateways)[limited.ID].admitted
	c.audit(t)
	atMost(t, clusterRow, "admitted of one token in any second before the restart of Redis",
		maxIn(during(admitted, time.Time{}, redisGone), time.Second), 10)
	// On a busy machine one gateway may switch modes later than the other, and admit its share in addition to the shared limit.
	atMost(t, clusterRow, "and in any second afterwards", maxIn(during(admitted, redisGone, time.Now()), time.Second), either(12, 15))
}

// audit audits the records of the gateways, which have ended, as docs/operate/what-if.md describes. It fails for a window above what is
// promised. In the short form, gateways on a busy machine may notice an outage too late for that.
func (c *cluster) audit(t *testing.T) {
	t.Helper()
	if !*full {
		return
	}
	arguments := []string{"audit", "--config", c.gateways[0].file} // for the records of earlier releases, which have no limits
	for _, g := range c.gateways {
		arguments = append(arguments, "--demand", g.record())
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(programs, "opsgate"), arguments...).CombinedOutput()
	result, _, _ := strings.Cut(string(out), "\n")
	report(t, clusterRow, "opsgate audit", result, "")
	if err != nil {
		t.Errorf("opsgate audit: %v\n%s", err, out)
	}
}

// underLoad runs a phase under load: no request may fail, and the load must reach the limit of requests.
func (c *cluster) underLoad(t *testing.T, phase string, run func()) {
	t.Helper()
	wait := c.load(t)
	run()
	answers := wait()
	noneFailed(t, clusterRow, answers)
	report(t, clusterRow, "p99 "+phase, tenths(answers.percentile(.99)), "")
	if len(answers.to("full").refused()) == 0 {
		t.Errorf("%s: the limit was not reached", phase)
	}
}

// load sends requests to the load balancer for the duration of a phase.
func (c *cluster) load(t *testing.T) (wait func() responses) {
	t.Helper()
	return load{
		gateways: []*gateway{c.balancer}, tokens: texts(t, "full", "read", "servers:read", "monitors:read", "incidents:read"),
		paths: reads(), rate: 200, clients: 32, duration: either(15*time.Second, 3*time.Second),
	}.start(t)
}
