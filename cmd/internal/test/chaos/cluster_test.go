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

	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

// Before the first release, the previous release is this commit.
const beforeFirstRelease = "ae29d14"

// Gateways of the previous release are upgraded one after the other. No request fails, and two
// gateways of different releases share limits.
func TestRollingUpgrade(t *testing.T) {
	if !*full {
		testkit.SkipLong(t, "make cluster")
	}
	limited := tokens(t)["full"].ID
	gateways := startPair(t, buildPrevious(t), everyService(shared.address), inRedis(redistest.Start(t), tenASecond(limited))+draining())
	c := newClientBalancer(t, gateways)
	// The previous release does not know the class and the expiry that identity states.
	used := texts(t, "full", "read", "servers:read")
	used["class"] = createTokens(t, shared.data, 1, classed(time.Hour))[0].Text
	const upgrade, after = "each gateway is upgraded", "both are upgraded"
	r := load{base: c.url, tokens: used, paths: reads(), rate: 200, clients: 32}.through(t,
		phase{"the previous release", nil, nil, 5 * time.Second},
		phase{upgrade, func() {
			for _, g := range gateways {
				g.End(t)
				g.program = "opsgate"
				g.restart(t)
				testkit.Eventually(t, "the gateway gets requests again", c.allReady)
				sleep(t, 2*time.Second) // both releases count in one Redis
			}
		}, nil, 0},
		phase{after, nil, nil, 5 * time.Second},
	)
	noneFailed(t, r.responses)
	expectNone(t, "other responses than 200 and 404 to a token with class and expiry", len(r.to("class").except(http.StatusOK, http.StatusNotFound)))
	report(t, "p99 before, meanwhile, after", []time.Duration{
		tenths(r.before(upgrade).percentile(.99)), tenths(r.all(upgrade).percentile(.99)), tenths(r.in(after).percentile(.99)),
	}, "")
	checkTenASecond(t, r.before(after))
	// A share of each gateway in addition: docs/operate/guarantees.md, "What remains".
	atMost(t, "and in any second afterwards", r.in(after).to("full").maxIn(time.Second), 10+2*5)
}

// buildPrevious builds the gateway of the previous release: of the last tag, else of
// beforeFirstRelease. It returns the program's name.
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

// One of two gateways is killed. Only its requests in flight are lost; the requests that it counted
// still count.
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
	testkit.Eventually(t, "the gateway gets requests again", c.allReady)
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
