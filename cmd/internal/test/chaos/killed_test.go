package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"opsgate/ratelimit/redisstore/redistest"
)

// otherRow is the row of results without a number in the table.
const otherRow = "beyond"

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
		phase{"killed", gateways[0].Kill, nil, either(3*time.Second, 2*time.Second)},
	)
	limitedAnswers, lost := stopLimited(), answered.failed()
	atMost(t, otherRow, fmt.Sprintf("of %d requests to two gateways, lost when one was killed", len(answered.responses)), len(lost), either(40, 200))
	within(t, otherRow, "until the last loss", answered.timeToLastFailure(answered.began("killed")), time.Second)
	atMost(t, otherRow, "admitted of a token with 40 an hour", len(limitedAnswers.admitted()), 40)
	if len(limitedAnswers.refused()) == 0 || len(limitedAnswers.admitted()) < 20 {
		t.Errorf("%d admitted and %d refused", len(limitedAnswers.admitted()), len(limitedAnswers.refused()))
	}
	gateways[0].restart(t)
	eventually(t, "the gateway gets requests again", func() bool { return c.gateways[0].ready.Load() })
}

// A Redis cluster without one of its masters refuses all commands by default. No request fails.
func TestRedisClusterMasterDown(t *testing.T) {
	parallel(t)
	cluster := redistest.StartCluster(t)
	addresses := make([]string, 0, len(cluster.Servers))
	for _, address := range cluster.Addrs() {
		addresses = append(addresses, fmt.Sprintf("%q", address))
	}
	timeout := either(50*time.Millisecond, 2*time.Second)
	gateways := startTwo(t, fmt.Sprintf("rate_limit:\n  store: redis\n  expected_replicas: 2\n"+
		"  redis: {addresses: [%s], timeout: %v}\n  limits: [{requests: 1000000, per: 1s}]\n",
		strings.Join(addresses, ", "), timeout))
	all := load{
		gateways: gateways, rate: 100, clients: 16,
		tokens: texts(t, "full", "read", "servers:read", "metrics:read", "commands:read", "monitors:read", "incidents:read"),
	}
	const down, back = "one of three masters is down", "both count in the cluster again"
	var local int
	during := all.through(t,
		phase{"usual", nil, nil, either(time.Second, time.Second/2)},
		phase{down, cluster.Servers[1].Kill, nil, either(5*time.Second, 3*time.Second)},
		phase{back, func() {
			local = sum(t, gateways, "opsgate_rate_limit_local_decisions_total")
			cluster.Servers[1].Restart()
		}, counted(t, gateways), either(time.Second, time.Second/2)},
	)
	noneFailed(t, otherRow, during.responses)
	report(t, otherRow, "decided without the cluster, while one of three masters was down", local, "some")
	if local == 0 {
		t.Error("no decision was local")
	}
	within(t, otherRow, "until both counted in the cluster again", during.took(back), 15*time.Second)
}
