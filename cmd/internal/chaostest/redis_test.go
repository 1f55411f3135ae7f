package chaostest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"opsgate/ratelimit/redisstore/redistest"
)

func TestAScriptThatRedisForgotIsNotMissed(t *testing.T) {
	server := redistest.Start(t)
	gateways := startTwo(t, inRedis(server, "  limits: [{requests: 1000000, per: 1s}]\n"))
	duration := either(10*time.Second, 2*time.Second)
	wait := load{gateways: gateways, tokens: texts(t, "full", "read"), rate: 200, clients: 8, duration: duration}.start(t)
	flushes := 0
	for begun := time.Now(); time.Since(begun) < duration; sleep(t, 50*time.Millisecond) {
		if err := server.Client().ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		flushes++
	}
	all := wait()
	noneFailed(t, "7", all)
	expectNone(t, "7", "refusals", len(all.refused()))
	expectNone(t, "7", "decisions without Redis", sum(t, gateways, "opsgate_rate_limit_local_decisions_total"))
	sent := sum(t, gateways, "opsgate_rate_limit_redis_script_reloads_total")
	report(t, "7", fmt.Sprintf("times that the script was sent again, in %d flushes", flushes), sent, "as often as it was missed")
	if sent < flushes/2 {
		t.Errorf("sent %d times: the flushes were not felt", sent)
	}
}

// pressed gives two tokens limits that they ask for more of than they get, all the time. The others' are never reached. In the short form
// gateways are more patient with Redis: to one that takes a busy machine for an outage, the outage is longer than it is here.
func pressed(t *testing.T, server *redistest.Server) string {
	t.Helper()
	all := tokens(t)
	limits := fmt.Sprintf("  limits: [{requests: 1000000, per: 1s}]\n  tokens:\n"+
		"    %s: {limits: [{requests: 3, per: 1s}]}\n    %s: {limits: [{requests: 100, per: 10s}]}\n", all["full"].ID, all["read"].ID)
	return inRedisWithin(server, either(50*time.Millisecond, time.Second/2), limits+recorded)
}

// An outage is Redis going away under load, and coming back.
type outage struct {
	server      *redistest.Server
	goes, comes func()
	away        time.Duration

	answers    answers
	decided    map[string]decided
	gone, back time.Time
	noticed    time.Duration // until no gateway asked it
	returned   time.Duration // until both counted in it again
}

// cause has it happen. Each of ten tokens, two of them pressed, asks for a tenth of the rate.
func (o *outage) cause(t *testing.T) {
	t.Helper()
	gateways := startTwo(t, pressed(t, o.server))
	before, after := either(5*time.Second, 2*time.Second), either(12*time.Second, 3*time.Second)
	wait := load{
		gateways: gateways, rate: 500, clients: 48, duration: before + o.away + after,
		tokens: texts(t, "full", "read", "none", "servers:read", "metrics:read", "commands:read", "monitors:read", "incidents:read",
			"audit:read", "other_team"),
	}.start(t)
	sleep(t, before)
	o.gone = time.Now()
	o.goes()
	o.noticed = eventually(t, "both gateways notice", func() bool { _, none := storeModes(t, gateways); return none })
	sleep(t, o.away-time.Since(o.gone))
	o.back = time.Now()
	o.comes()
	o.returned = eventually(t, "both gateways count in Redis again", func() bool { all, _ := storeModes(t, gateways); return all })
	o.answers = wait()
	o.decided = decisions(t, gateways)
}

// usual returns the p99 from before Redis went, without the first second, in which everything connects.
func (o *outage) usual() time.Duration {
	return o.answers.between(o.answers[0].sent.Add(time.Second), o.gone).percentile(.99)
}

// admissions holds the pressed tokens to their limits. A twentieth more is the price of an outage, and a quarter where one gateway may be
// long behind the other in noticing.
func (o *outage) admissions(t *testing.T, row string) {
	t.Helper()
	limited := tokens(t)
	three, hundred := o.decided[limited["full"].ID], o.decided[limited["read"].ID]
	for name, d := range map[string]decided{"full": three, "read": hundred} {
		if seen := len(o.answers.to(name).admitted()); len(d.admitted) != seen || d.local == 0 {
			t.Errorf("%d recorded of %d admitted, %d of them while Redis was away", len(d.admitted), seen, d.local)
		}
	}
	held := func(what string, got int, limit float64, more int) {
		t.Helper()
		atMost(t, row, fmt.Sprintf("%s, of %.0f", what, limit), got, int(limit*either(1.05, 1.25))+more)
	}
	seconds := math.Ceil(o.answers[len(o.answers)-1].sent.Sub(o.answers[0].sent).Seconds())
	held("100 per 10s: admitted in any 10 s", maxIn(hundred.admitted, 10*time.Second), 100, 0)
	held(fmt.Sprintf("100 per 10s: admitted in %.0f s", seconds), len(hundred.admitted), 100*math.Ceil(seconds/10), 0)
	// Half of three a second is no number of requests: each gateway admits two, or three in two seconds. That is one more for each, which
	// in a long time weighs nothing, and beside what Redis admitted just before, both their parts.
	held("3 per 1s: admitted in any second", maxIn(three.admitted, time.Second), 3, 2*2)
	held("3 per 1s: admitted in any 10 s", maxIn(three.admitted, 10*time.Second), 30, 2)
	more := 3
	if *full {
		more = 0
	}
	held(fmt.Sprintf("3 per 1s: admitted in %.0f s", seconds), len(three.admitted), 3*seconds, more)
}

// recovery holds how long it takes until Redis decides on everybody again, which is a while after gateways say that they are back.
func (o *outage) recovery(t *testing.T, row string) {
	t.Helper()
	within(t, row, "until both said that Redis was back", o.returned, 5*time.Second)
	var last time.Time
	for _, d := range o.decided {
		if d.lastLocal.After(last) {
			last = d.lastLocal
		}
	}
	within(t, row, "until it decided on every token again", last.Sub(o.back), 5*time.Second)
}

func TestRedisIsKilledAndComesBackEmpty(t *testing.T) {
	server := redistest.Start(t)
	o := outage{server: server, goes: server.Kill, comes: server.Restart, away: either(10*time.Second, 3*time.Second)}
	o.cause(t)
	noneFailed(t, "8", o.answers)
	usual := o.usual()
	within(t, "8", fmt.Sprintf("p99 in the first second (%v before)", tenths(usual)),
		o.answers.between(o.gone, o.gone.Add(time.Second)).percentile(.99), usual+60*time.Millisecond)
	within(t, "8", "p99 in the rest of the outage", o.answers.between(o.gone.Add(time.Second), o.back).percentile(.99), usual+2*time.Millisecond)
	within(t, "8", "p99 from when Redis was back", o.answers.between(o.back, o.back.Add(time.Hour)).percentile(.99), usual+2*time.Millisecond)
	o.admissions(t, "8")
	o.recovery(t, "8")
}

func TestRedisIsFrozen(t *testing.T) {
	server := redistest.Start(t)
	o := outage{server: server, goes: server.Pause, comes: server.Resume, away: either(10*time.Second, 2*time.Second)}
	o.cause(t)
	noneFailed(t, "9", o.answers)
	usual := o.usual()
	within(t, "9", fmt.Sprintf("slowest request while Redis was frozen (p99 %v before)", tenths(usual)),
		o.answers.between(o.gone, o.back).percentile(1), usual+60*time.Millisecond)
	within(t, "9", "until the breakers were open", o.noticed, time.Second)
	o.admissions(t, "9")
	o.recovery(t, "9")
}

// Forty tokens ask twice in three seconds, turn by turn through both gateways: two thirds of what their shortest limit admits are never used.
func TestTokensWithinTheirLimitsAreDeniedInNoOutage(t *testing.T) {
	const count, each = 40, 0.67
	server := redistest.Start(t)
	limits := "  limits: [{requests: 3, per: 1s}, {requests: 5000, per: 1h}]\n"
	gateways := startTwo(t, inRedisWithin(server, either(50*time.Millisecond, time.Second/2), limits))
	requests := load{gateways: gateways, tokens: createTokens(t, count), rate: count * each, clients: count}
	end := requests.begin(t)
	duration := either(6*time.Second, 2500*time.Millisecond)
	outage := func(goes, comes func()) {
		sleep(t, duration)
		goes()
		eventually(t, "both gateways notice", func() bool { _, none := storeModes(t, gateways); return none })
		sleep(t, duration)
		comes()
		eventually(t, "both gateways count in Redis again", func() bool { all, _ := storeModes(t, gateways); return all })
	}
	outage(server.Kill, server.Restart)
	outage(server.Pause, server.Resume)
	sleep(t, duration)
	all := end()
	noneFailed(t, "22", all)
	expectNone(t, "22", fmt.Sprintf("denials of %d requests by %d tokens within their limits", len(all), count), len(all.refused()))
	if local := sum(t, gateways, "opsgate_rate_limit_local_decisions_total"); local < count {
		t.Errorf("%d requests were decided without Redis: no outage", local)
	}
}
