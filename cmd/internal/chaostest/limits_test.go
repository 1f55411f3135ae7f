package chaostest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"opsgate/ratelimit/demand"
	"opsgate/ratelimit/redisstore/redistest"
)

const threeASecond = "rate_limit: {limits: [{requests: 3, per: 1s}]}\n"

// inRedis is a configuration of limits that two gateways count together.
func inRedis(server *redistest.Server, more string) string {
	return fmt.Sprintf("rate_limit:\n  store: redis\n  expected_replicas: 2\n  redis: {addresses: [%q]}\n%s", server.Addr(), more)
}

// texts returns what some demo tokens are.
func texts(t *testing.T, names ...string) map[string]string {
	t.Helper()
	all, some := tokens(t), make(map[string]string, len(names))
	for _, name := range names {
		some[name] = all[name].Text
	}
	return some
}

// end has a gateway end in order, with all that it has to write.
func (g *gateway) end(t *testing.T) {
	t.Helper()
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-g.exited
}

// most returns how many of the times are within any interval of that length.
func most(times []time.Time, per time.Duration) (n int) {
	slices.SortFunc(times, time.Time.Compare)
	first := 0
	for i := range times {
		for times[i].Sub(times[first]) >= per {
			first++
		}
		n = max(n, i-first+1)
	}
	return n
}

func TestTwoGatewaysAdmitAsOne(t *testing.T) {
	server, backend := redistest.Start(t), startBackend(t)
	var gateways []*gateway
	var records []string
	for range 2 {
		file := filepath.Join(t.TempDir(), "demand.jsonl")
		records = append(records, file)
		gateways = append(gateways, startGateway(t, backend, inRedis(server, fmt.Sprintf("  limits: [{requests: 3, per: 1s}]\n"+
			"  demand: {file: %q, sample: 100%%}\n", file))))
	}
	lasts := took(20*time.Second, 5*time.Second)
	all := load{gateways: gateways, tokens: texts(t, "full"), clients: 20, time: lasts}.run(t)
	noneFailed(t, "1", all)
	for _, g := range gateways {
		g.end(t)
	}
	var admitted []time.Time // by Redis' clock
	record, err := demand.Open(records...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = record.Close() }()
	for e, err := range record.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Local {
			t.Fatal("decided without Redis")
		}
		if e.Allowed {
			admitted = append(admitted, e.At)
		}
	}
	n, least := most(admitted, time.Second), int(3*lasts.Seconds())-3
	note(t, "1", "admitted in any second, by Redis' clock", fmt.Sprint(n), "at most 3")
	note(t, "1", fmt.Sprintf("admitted in %v", lasts), fmt.Sprint(len(admitted)), fmt.Sprintf("at least %d", least))
	if n > 3 || len(admitted) < least || len(admitted) != len(all.admitted()) {
		t.Errorf("%d in a second, %d in all, %d seen by clients", n, len(admitted), len(all.admitted()))
	}
}

// Without a store that they share, two gateways admit twice as much: the test before this one would notice.
func TestTwoGatewaysWithoutRedisDoNot(t *testing.T) {
	backend := startBackend(t)
	gateways := []*gateway{startGateway(t, backend, threeASecond), startGateway(t, backend, threeASecond)}
	all := load{gateways: gateways, tokens: texts(t, "full"), clients: 4, time: 2 * time.Second}.run(t)
	if n := len(all.admitted()); n < 10 {
		t.Errorf("%d admitted in two seconds", n)
	}
}

func TestANoisyTokenIsFeltByNoOther(t *testing.T) {
	server, backend := redistest.Start(t), startBackend(t)
	gateways := []*gateway{startGateway(t, backend, inRedis(server, "  limits: [{requests: 3, per: 1s}]\n"))}
	calm := load{gateways: gateways, tokens: texts(t, "read"), rate: 2, clients: 2, time: took(20*time.Second, 4*time.Second)}
	quiet := calm.run(t)
	wait := load{gateways: gateways, tokens: texts(t, "full"), rate: 500, clients: 16, time: calm.time}.start(t)
	beside := calm.run(t)
	noneFailed(t, "5", append(wait(), beside...))
	refused := len(beside) - len(beside.admitted())
	note(t, "5", "refusals of the other token", fmt.Sprint(refused), "none")
	if refused > 0 {
		t.Errorf("%d refused", refused)
	}
	// Of forty requests the slowest is chance; nine in ten are not.
	within(t, "5", fmt.Sprintf("p90 of the other token (%v alone)", quiet.percentile(.9).Round(time.Microsecond)), beside.percentile(.9),
		max(2*quiet.percentile(.9), 2*time.Millisecond))
}

func TestLimitsChangeUnderLoad(t *testing.T) {
	server, backend := redistest.Start(t), startBackend(t)
	limit := func(requests any) string {
		return inRedis(server, fmt.Sprintf("  limits: [{requests: %v, per: 1s}]\n", requests))
	}
	gateways := []*gateway{startGateway(t, backend, limit(3)), startGateway(t, backend, limit(3))}
	step := took(4*time.Second, 2500*time.Millisecond)
	wait := load{gateways: gateways, tokens: texts(t, "full"), rate: 100, clients: 8, time: 5 * step}.start(t)
	changes := []struct {
		requests any
		at       time.Time
	}{{requests: 10}, {requests: 3}, {requests: "many"}}
	for i := range changes {
		pass(t, step)
		changes[i].at = time.Now()
		for n, g := range gateways {
			g.configure(t, limit(changes[i].requests))
			if n == 0 {
				g.hangUp(t) // the other one notices by itself
			}
		}
	}
	for _, g := range gateways {
		eventually(t, patience, "the invalid file is refused", func() bool { return g.metric(t, "opsgate_config_last_reload_successful") == 0 })
		g.configure(t, limit(3))
		eventually(t, patience, "the file is good again", func() bool { return g.metric(t, "opsgate_config_last_reload_successful") == 1 })
	}
	all := wait()
	noneFailed(t, "6", all)
	for i, want := range []string{`"second";q=10;w=1`, `"second";q=3;w=1`} {
		until := changes[i+1].at
		if i == 1 {
			until = time.Now() // the third change is refused
		}
		var late time.Duration
		for _, a := range all.between(changes[i].at, until) {
			if a.policy != want {
				late = max(late, a.sent.Sub(changes[i].at))
			}
		}
		within(t, "6", "until "+want+" holds on both", late, time.Second)
	}
	if n := most(timesOf(all.between(changes[0].at.Add(time.Second), changes[1].at).admitted()), time.Second); n < 8 || n > 12 {
		t.Errorf("%d admitted in a second under ten a second", n)
	}
}

func timesOf(all answers) []time.Time {
	times := make([]time.Time, len(all))
	for i, a := range all {
		times[i] = a.sent
	}
	return times
}

func TestAScriptThatRedisForgotIsNotMissed(t *testing.T) {
	server, backend := redistest.Start(t), startBackend(t)
	config := inRedis(server, "  limits: [{requests: 1000000, per: 1s}]\n")
	gateways := []*gateway{startGateway(t, backend, config), startGateway(t, backend, config)}
	lasts := took(10*time.Second, 2*time.Second)
	wait := load{gateways: gateways, tokens: texts(t, "full", "read"), rate: 200, clients: 8, time: lasts}.start(t)
	for begun := time.Now(); time.Since(begun) < lasts; pass(t, 50*time.Millisecond) {
		if err := server.Client().ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	all := wait()
	noneFailed(t, "7", all)
	local := 0.0
	for _, g := range gateways {
		local += g.metric(t, "opsgate_rate_limit_local_decisions_total")
	}
	note(t, "7", "requests refused or decided without Redis", fmt.Sprint(len(all)-len(all.admitted())+int(local)), "none")
	if len(all.admitted()) != len(all) || local > 0 {
		t.Errorf("%d of %d admitted, %v decided without Redis", len(all.admitted()), len(all), local)
	}
}

// Two hundred changes in twenty seconds, one in four of which is a mistake.
func TestAStormOfChanges(t *testing.T) {
	backend := startBackend(t)
	const first = 1_000_000
	limit := func(i int) string { return fmt.Sprintf("rate_limit: {limits: [{requests: %d, per: 1s}]}\n", first+i) }
	g := startGateway(t, backend, limit(0))
	n := int(took(20*time.Second, 5*time.Second) / (100 * time.Millisecond))
	wait := load{gateways: []*gateway{g}, tokens: texts(t, "full", "read"), rate: 200, clients: 8, time: time.Duration(n)*100*time.Millisecond + 2*time.Second}.start(t)
	written := make([]time.Time, n+1) // when each valid change was; zero for the others
	for i := 1; i <= n; i++ {
		if i%4 == 2 {
			g.configure(t, strings.Replace(limit(i), "requests", "request", 1))
		} else {
			g.configure(t, limit(i))
			written[i] = time.Now()
		}
		if i%8 < 4 { // else the gateway notices by itself
			g.hangUp(t)
		}
		pass(t, 100*time.Millisecond)
	}
	all := wait()
	noneFailed(t, "storm", all)
	var latest time.Duration
	for _, a := range all {
		var q int
		if _, err := fmt.Sscanf(a.policy, `"second";q=%d;`, &q); err != nil || q > first && written[q-first].IsZero() {
			t.Fatalf("answered under %q", a.policy)
		}
		for i := q - first + 1; i <= n && (written[i].IsZero() || written[i].Before(a.sent)); i++ {
			if !written[i].IsZero() {
				latest = max(latest, a.sent.Sub(written[i]))
				break
			}
		}
	}
	within(t, "storm", fmt.Sprintf("until each of %d valid changes, or a later one, was in force", n-n/4), latest, time.Second)
	refused := g.metric(t, `opsgate_config_reloads_total{outcome="refused"}`)
	note(t, "storm", "invalid changes refused", fmt.Sprint(refused), "all that were read")
	if refused < float64(n)/16 {
		t.Errorf("%v refused", refused)
	}
}
