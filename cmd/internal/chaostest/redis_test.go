package chaostest

import (
	"fmt"
	"testing"
	"time"

	"opsgate/ratelimit/redisstore/redistest"
)

// pressed are two tokens that ask for more than their limits all the time; the others' limits are never reached.
func pressed(t *testing.T, server *redistest.Server) string {
	t.Helper()
	all := tokens(t)
	return inRedis(server, fmt.Sprintf("  limits: [{requests: 1000000, per: 1s}]\n  tokens:\n"+
		"    %s: {limits: [{requests: 3, per: 1s}]}\n    %s: {limits: [{requests: 100, per: 10s}]}\n", all["full"].ID, all["read"].ID))
}

func manyTokens(t *testing.T) map[string]string {
	t.Helper()
	return texts(t, "full", "read", "none", "servers:read", "metrics:read", "commands:read", "monitors:read", "incidents:read",
		"audit:read", "other_team")
}

// An outage is Redis going away under load, and coming back.
type outage struct {
	answers  answers
	gateways []*gateway
	gone     time.Time
	back     time.Time
	opened   time.Duration // until no gateway asked it
	returned time.Duration // until both counted in it again
}

func (o *outage) cause(t *testing.T, server *redistest.Server, away time.Duration, goes, comes func()) {
	t.Helper()
	backend, config := startBackend(t), pressed(t, server)
	o.gateways = []*gateway{startGateway(t, backend, config), startGateway(t, backend, config)}
	before, after := took(5*time.Second, 2*time.Second), took(10*time.Second, 4*time.Second)
	wait := load{
		gateways: o.gateways, tokens: manyTokens(t), rate: took500(), clients: 48, time: before + away + after,
	}.start(t)
	pass(t, before)
	o.gone = time.Now()
	goes()
	shared := func(is bool) func() bool {
		return func() bool { return o.gateways[0].isShared(t) == is && o.gateways[1].isShared(t) == is }
	}
	o.opened = eventually(t, patience, "both gateways notice", shared(false))
	pass(t, away-time.Since(o.gone))
	o.back = time.Now()
	comes()
	o.returned = eventually(t, patience, "both gateways count in Redis again", shared(true))
	o.answers = wait()
}

// took500 is the rate of the table, or a tenth of it where the detector of races makes everything some ten times slower.
func took500() float64 {
	if len(raceFlag) > 0 {
		return 100
	}
	return 500
}

// latencies compares the seconds after Redis went with the one before.
func (o *outage) latencies(t *testing.T, row string) {
	t.Helper()
	usual := o.answers.between(o.gone.Add(-time.Second), o.gone).percentile(.99)
	within(t, row, fmt.Sprintf("p99 in the first second (%v before)", usual.Round(time.Millisecond/10)),
		o.answers.between(o.gone, o.gone.Add(time.Second)).percentile(.99), usual+60*time.Millisecond)
	within(t, row, "p99 in the rest of the outage", o.answers.between(o.gone.Add(time.Second), o.back).percentile(.99), usual+2*time.Millisecond)
}

// admissions holds two tokens that press against their limits to them, over the whole time and over each window of a limit.
func (o *outage) admissions(t *testing.T, row string) {
	t.Helper()
	first, last := o.answers[0].sent, o.answers[len(o.answers)-1].sent
	seconds := last.Sub(first).Seconds()
	for _, token := range []struct {
		name     string
		requests float64
		per      time.Duration
	}{{"full", 3, time.Second}, {"read", 100, 10 * time.Second}} {
		times := timesOf(o.answers.to(token.name).admitted())
		whole := token.requests * (seconds/token.per.Seconds() + 1)
		note(t, row, fmt.Sprintf("admitted of %v in %v, over %.0f s", token.requests, token.per, seconds), fmt.Sprint(len(times)),
			fmt.Sprintf("at most %.0f, and 5 %%", whole))
		if float64(len(times)) > whole*1.05 {
			t.Errorf("%s: %d admitted in all, at most %.0f and a twentieth", token.name, len(times), whole)
		}
	}
	n := most(timesOf(o.answers.to("read").admitted()), 10*time.Second)
	note(t, row, "admitted in any 10 s, of 100", fmt.Sprint(n), "at most 105")
	if n > 105 {
		t.Errorf("%d in ten seconds", n)
	}
}

func TestRedisIsKilledAndComesBackEmpty(t *testing.T) {
	server := redistest.Start(t)
	var o outage
	o.cause(t, server, took(10*time.Second, 4*time.Second), server.Kill, server.Restart)
	noneFailed(t, "8", o.answers)
	o.latencies(t, "8")
	o.admissions(t, "8")
	within(t, "8", "until both count in Redis again", o.returned, 5*time.Second)
}

func TestRedisIsFrozen(t *testing.T) {
	server := redistest.Start(t)
	var o outage
	o.cause(t, server, took(10*time.Second, 3*time.Second), server.Freeze, server.Thaw)
	noneFailed(t, "9", o.answers)
	usual := o.answers.between(o.gone.Add(-time.Second), o.gone).percentile(.5)
	within(t, "9", "slowest request while Redis is frozen", o.answers.between(o.gone, o.back).percentile(1), usual+60*time.Millisecond)
	within(t, "9", "until the breaker is open", o.opened, time.Second)
	o.admissions(t, "9")
	within(t, "9", "until both count in Redis again", o.returned, 5*time.Second)
}
