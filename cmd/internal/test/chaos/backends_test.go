package chaos

import (
	"fmt"
	"testing"
	"time"
)

// unlimited configures limits that no test reaches.
const unlimited = "rate_limit: {limits: [{requests: 1000000, per: 1s}]}\n"

// parallel runs a test in parallel in the short form, where bounds on time are loose.
func parallel(t *testing.T) {
	t.Helper()
	if !*full {
		t.Parallel()
	}
}

// allReads is a load of all reads through one gateway.
func allReads(t *testing.T, g *gateway, rate float64) load {
	t.Helper()
	return load{gateways: []*gateway{g}, tokens: texts(t, "full"), paths: reads(), rate: rate, clients: mostClients}
}

// expectFewFailures checks that at most 0.5 % of the reads failed. In the short form it is 10 %: a busy machine has many requests in flight,
// and the test is too short for successful ones to outweigh them.
func expectFewFailures(t *testing.T, what string, all responses) {
	t.Helper()
	failed, bound := all.failed(), 10.
	if *full {
		bound = .5
	}
	share := 100 * float64(len(failed)) / float64(len(all))
	report(t, "10", what, fmt.Sprintf("%d of %d, %.2f %%", len(failed), len(all), share), fmt.Sprintf("at most %.1f %%", bound))
	if share > bound || len(all) == 0 {
		t.Errorf("%d of %d failed: %+v", len(failed), len(all), failed[:min(len(failed), 3)])
	}
}

// timeToLastFailure returns the time from since to the last failed request.
func (all responses) timeToLastFailure(since time.Time) time.Duration {
	failed := all.failed()
	if len(failed) == 0 {
		return 0
	}
	return max(0, failed[len(failed)-1].sent.Sub(since))
}

// One of three backends is killed and restarted, then the other two stop. Nothing fails if the restarted one gets calls again.
func TestBackendKilledAndRestarted(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	replicas, name := startReplicas(t, 3)
	g := startGateway(t, everyService(name), unlimited)
	rate := either(300.0, 100)
	all := allReads(t, g, rate).through(t,
		phase{"usual", nil, nil, either(3*time.Second, time.Second)},
		phase{"killed", replicas[1].Kill, nil, either(8*time.Second, time.Second)},
	)
	expectFewFailures(t, "reads that failed when one of three was killed", all.responses)
	within(t, "10", "until the last failure", all.since("killed").timeToLastFailure(all.began("killed")), 5*time.Second)
	report(t, "10", fmt.Sprintf("p99 since then (%v before)", tenths(all.in("usual").percentile(.99))), tenths(all.since("killed").percentile(.99)), "–")

	replicas[1].restart(t)
	left := allReads(t, g, rate).through(t,
		phase{"reconnected", nil, nil, either(5*time.Second, 3*time.Second)},
		phase{"one stopped", func() { replicas[0].End(t) }, nil, either(3*time.Second, time.Second)},
		phase{"the other stopped", func() { replicas[2].End(t) }, nil, either(3*time.Second, time.Second)},
	)
	report(t, "10", "reads while the other two stopped", len(left.responses), "none fails")
	noneFailed(t, "10", left.responses)
}

// A frozen process keeps its connection but does not respond. Only the calls that it received fail, at their deadline, until the
// gateway closes the connection.
func TestBackendFrozen(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	replicas, name := startReplicas(t, 3)
	g := startGateway(t, everyService(name), fmt.Sprintf("http: {request_timeout: %v}\n", either(10*time.Second, 3*time.Second))+unlimited)
	rate := either(300.0, 100)
	frozen := either(30*time.Second, 4*time.Second)
	all := allReads(t, g, rate).through(t,
		phase{"usual", nil, nil, either(3*time.Second, time.Second)},
		phase{"frozen", func() { replicas[1].Freeze(t) }, nil, frozen},
	)
	replicas[1].Thaw(t)
	expectFewFailures(t, fmt.Sprintf("reads that failed while one of three was frozen for %v", frozen), all.responses)
	if *full {
		usual := all.in("usual").percentile(.5)
		within(t, "10", fmt.Sprintf("median during it (%v before)", tenths(usual)), all.since("frozen").percentile(.5), usual+2*time.Millisecond)
	}
	noneFailed(t, "10", allReads(t, g, rate).during(t, either(3*time.Second, time.Second/2)))
}
