package chaos

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

// cluster is the installation of docs/operate/planning.md on one machine: a load balancer, two gateways that share a Redis, and three
// backends behind one DNS name.
type cluster struct {
	redis    *redistest.Server
	backends []*backend
	gateways []*gateway
	balancer *gateway // its url is the load balancer's
}

// drainWait returns a few intervals of the load balancer's health check, which last longer on a busy machine.
func drainWait() time.Duration { return either(500*time.Millisecond, 3*time.Second) }

// startCluster starts a cluster with that build of the gateway, in which a token has 10 requests a second.
func startCluster(t *testing.T, program, limited string) *cluster {
	t.Helper()
	c := &cluster{redis: redistest.Start(t, "--appendonly", "yes")}
	var name string
	c.backends, name = startReplicas(t, 3)
	limits := fmt.Sprintf("  limits: [{requests: 1000000, per: 1s}]\n  tokens:\n    %s: {limits: [{requests: 10, per: 1s}]}\n", limited)
	config := inRedis(c.redis, limits) + fmt.Sprintf("shutdown: {drain_wait: %v}\n", drainWait())
	c.gateways = startPair(t, program, everyService(name), config)
	c.balancer = startBalancer(t, c.gateways)
	return c
}

// startBalancer runs HAProxy in front of gateways. It checks /readyz, and retries failed connections on another gateway.
func startBalancer(t *testing.T, gateways []*gateway) *gateway {
	t.Helper()
	program := testkit.Find(t, "haproxy")
	address := testkit.FreeAddress(t)
	config := "defaults\n  mode http\n  timeout connect 5s\n  timeout check 10s\n  timeout client 30s\n  timeout server 30s\n" +
		"frontend public\n  bind " + address + "\n  default_backend gateways\n" +
		"backend gateways\n  balance roundrobin\n  option redispatch 1\n  option httpchk GET /readyz\n" +
		"  default-server check inter 100ms fall 1 rise 1\n"
	for i, g := range gateways {
		config += fmt.Sprintf("  server gateway%d %s port %s\n", i+1, g.socket(), port(t, strings.TrimPrefix(g.admin, "http://")))
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	testkit.Must(t, os.WriteFile(file, []byte(config), 0o600))
	p := testkit.Start(t, exec.Command(program, "-db", "-f", file))
	p.MayFail() // its exit code is not 0
	balancer := &gateway{Process: p, url: "http://" + address}
	testkit.Eventually(t, "the balancer serves", func() bool {
		return fetch(t.Context(), http.DefaultClient, balancer.url+"/openapi.json", "").status == http.StatusOK
	})
	return balancer
}

// Each backend and gateway is restarted under load, one after the other, then Redis is killed and restarted. No request fails, and
// the limits hold.
func TestRollingRestart(t *testing.T) {
	skipIfShort(t)
	limited := tokens(t)["full"]
	c := startCluster(t, "opsgate", limited.ID)
	var redisGone time.Time
	var all responses
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
			testkit.Eventually(t, "both are in local mode", func() bool { return sum(t, c.gateways, sharedMode) == 0 })
			c.redis.Restart()
			testkit.Eventually(t, "both count in Redis again", func() bool { return sum(t, c.gateways, sharedMode) == len(c.gateways) })
		}},
		{"after", func() {}},
	} {
		all = append(all, c.underLoad(t, phase.name, phase.run)...)
	}
	limitedToTen := all.to("full")
	atMost(t, "admitted of one token in any second before the restart of Redis",
		limitedToTen.between(time.Time{}, redisGone).maxIn(time.Second), 10)
	// A share of each gateway in addition: docs/operate/limits.md, "What remains".
	atMost(t, "and in any second afterwards", limitedToTen.between(redisGone, time.Now()).maxIn(time.Second), 10+2*5)
}

// underLoad runs a phase under load: no request may fail, and the load must reach the limit of requests.
func (c *cluster) underLoad(t *testing.T, phase string, run func()) responses {
	t.Helper()
	begun, end := time.Now(), c.load(t)
	run()
	sleep(t, either(15*time.Second, 2*time.Second)-time.Since(begun))
	answers := end()
	noneFailed(t, answers)
	report(t, "p99 "+phase, tenths(answers.percentile(.99)), "")
	if len(answers.to("full").refused()) == 0 {
		t.Errorf("%s: the limit was not reached", phase)
	}
	return answers
}

// load sends requests to the load balancer until its end.
func (c *cluster) load(t *testing.T) (end func() responses) {
	t.Helper()
	return load{
		gateways: []*gateway{c.balancer}, tokens: texts(t, "full", "read", "servers:read", "monitors:read", "incidents:read"),
		paths: reads(), rate: 200, clients: 32,
	}.start(t)
}

// Before the first release, the previous release is this commit.
const beforeFirstRelease = "ae29d14"

// Gateways of the previous release are upgraded one after the other. No request fails, and two gateways of different releases share limits.
func TestRollingUpgrade(t *testing.T) {
	if !*full {
		testkit.SkipLong(t, "make cluster")
	}
	limited := tokens(t)["full"]
	c := startCluster(t, buildPrevious(t), limited.ID)
	var upgraded time.Time
	before := c.underLoad(t, "under the previous release", func() {})
	during := c.underLoad(t, "while each gateway is upgraded", func() {
		for _, g := range c.gateways {
			g.End(t)
			g.program = "opsgate"
			g.restart(t)
			sleep(t, 2*time.Second) // both releases count in one Redis
		}
		upgraded = time.Now()
	})
	after := c.underLoad(t, "after", func() {})
	all := slices.Concat(before, during, after).to("full")
	atMost(t, "admitted of one token in any second, of 10, until both gateways were upgraded",
		all.between(time.Time{}, upgraded).maxIn(time.Second), 10)
	atMost(t, "and in any second afterwards", all.between(upgraded, time.Now()).maxIn(time.Second), 10+2*5)
}

// buildPrevious builds the gateway of the previous release: of the last tag, else of beforeFirstRelease. It returns the program's name.
func buildPrevious(t *testing.T) string {
	t.Helper()
	git := func(arguments ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", root}, arguments...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	release, err := git("describe", "--tags", "--abbrev=0", "--match=v*")
	if err != nil {
		release = beforeFirstRelease
	}
	if _, err := git("cat-file", "-e", release+"^{commit}"); err != nil {
		testkit.SkipWithout(t, release, err.Error())
	}
	archive, source := filepath.Join(t.TempDir(), "source.tar"), t.TempDir()
	if _, err := git("archive", "--output="+archive, release); err != nil {
		t.Fatal(err)
	}
	const name = "opsgate-previous"
	unpack := exec.CommandContext(t.Context(), "tar", "-xf", archive, "-C", source)
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", filepath.Join(programs, name), "./cmd/opsgate")
	build.Dir = source
	for _, command := range []*exec.Cmd{unpack, build} {
		command.Stderr = os.Stderr
		if err := command.Run(); err != nil {
			t.Fatalf("%v: %v", command.Args, err)
		}
	}
	report(t, "the previous release", release, "")
	return name
}

// One of two gateways is killed. Only its requests in flight are lost; the requests that it counted still count.
func TestGatewayKilled(t *testing.T) {
	parallel(t)
	server := redistest.Start(t)
	limited := tokens(t)["read"]
	gateways := startTwo(t, inRedis(server, fmt.Sprintf("  limits: [{requests: 1000000, per: 1s}]\n"+
		"  tokens: {%s: {limits: [{requests: 40, per: 1h}]}}\n", limited.ID)))
	c := newClientBalancer(t, gateways)
	limitedCalls := load{base: c.url, tokens: texts(t, "read"), rate: 40, clients: 4}
	all := load{base: c.url, rate: 200, clients: 16}
	stopLimited := limitedCalls.start(t)
	answered := all.through(t,
		phase{"usual", nil, nil, either(time.Second, time.Second/2)},
		phase{"killed", gateways[0].Kill, func() bool {
			return gateways[1].requests(t, "limit", "rate_limited", "v1GetServer", "429") > 0
		}, either(3*time.Second, 2*time.Second)},
	)
	limitedAnswers, lost := stopLimited(), answered.failed()
	atMost(t, fmt.Sprintf("of %d requests to two gateways, lost when one was killed", len(answered.responses)), len(lost), either(40, 200))
	within(t, "until the last loss", answered.timeToLastFailure(answered.began("killed")), time.Second)
	atMost(t, "admitted of a token with 40 an hour", len(limitedAnswers.admitted()), 40)
	if len(limitedAnswers.refused()) == 0 || len(limitedAnswers.admitted()) < 20 {
		t.Errorf("%d admitted and %d refused", len(limitedAnswers.admitted()), len(limitedAnswers.refused()))
	}
	gateways[0].restart(t)
	testkit.Eventually(t, "the gateway gets requests again", func() bool { return c.gateways[0].ready.Load() })
}

// A Redis cluster without one of its masters refuses all commands by default. No request fails.
func TestRedisClusterMasterDown(t *testing.T) {
	parallel(t)
	cluster := redistest.StartCluster(t)
	addresses := make([]string, 0, len(cluster.Servers))
	for _, address := range cluster.Addrs() {
		addresses = append(addresses, fmt.Sprintf("%q", address))
	}
	s := newSystem(t, nil, fmt.Sprintf("rate_limit:\n  store: redis\n  expected_replicas: 2\n"+
		"  redis: {addresses: [%s], timeout: %v}\n  limits: [{requests: 1000000, per: 1s}]\n",
		strings.Join(addresses, ", "), either(50*time.Millisecond, 2*time.Second)))
	const back = "both count in the cluster again"
	var local int
	s.try(t, row{
		load: func() load {
			return load{rate: 100, clients: 16,
				tokens: texts(s.T, "full", "read", "servers:read", "metrics:read", "commands:read", "monitors:read", "incidents:read")}
		},
		phases: []phase{
			{name: "usual", lasts: either(time.Second, time.Second/2)},
			{name: "one of three masters is down", begin: cluster.Servers[1].Kill, lasts: either(5*time.Second, 3*time.Second)},
			{back, func() {
				local = s.sum("opsgate_rate_limit_local_decisions_total")
				cluster.Servers[1].Restart()
			}, s.counted, either(time.Second, time.Second/2)},
		},
		check: func(r *trial) {
			report(s.T, "decided without the cluster, while one of three masters was down", local, "some")
			if local == 0 {
				s.Error("no decision was local")
			}
			within(s.T, "until both counted in the cluster again", r.took(back), 15*time.Second)
		},
	})
}
