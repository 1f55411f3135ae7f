package chaos

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

// Phases of an outage.
const without, again = "both gateways begin an outage", "both gateways use Redis again"

// outages are rows of Redis that fails, and of a gateway that is stopped.
func (s *system) outages(t *testing.T) []row {
	t.Helper()
	lasts := either(6*time.Second, 2500*time.Millisecond)
	return []row{
		s.scriptFlushed(),
		s.outage(t, "RedisIsKilledAndRestartedEmpty", phase{without, s.redis.Kill, s.local, either(10*time.Second, 3*time.Second)}, s.redis.Restart,
			func(r *trial, usual time.Duration) {
				second := r.began(without).Add(time.Second)
				within(s.T, fmt.Sprintf("p99 in the first second (%v before)", tenths(usual)),
					r.between(r.began(without), second).percentile(.99), usual+60*time.Millisecond)
				within(s.T, "p99 in the rest of the outage", r.between(second, r.began(again)).percentile(.99), usual+2*time.Millisecond)
				within(s.T, "p99 after the outage", r.since(again).percentile(.99), usual+2*time.Millisecond)
			}),
		s.outage(t, "RedisHangs", phase{without, s.redis.Pause, s.local, either(10*time.Second, 2*time.Second)}, s.redis.Resume,
			func(r *trial, usual time.Duration) {
				within(s.T, fmt.Sprintf("slowest request while Redis hung (p99 %v before)", tenths(usual)),
					r.all(without).percentile(1), usual+60*time.Millisecond)
				within(s.T, "until the breakers were open", r.took(without), time.Second)
			}),
		s.stoppedAndStarved(t),
		{
			// 40 tokens make two requests in three seconds, at two gateways in turn: less than a
			// third of their shortest limit.
			name: "TokensWithinTheirLimitsAreNotDeniedWhileRedisIsDown", slow: true,
			config: "  limits: [{requests: 3, per: 1s}, {requests: 5000, per: 1h}]\n",
			load: func() load {
				texts := map[string]string{}
				for _, token := range createTokens(s.T, shared.data, 40) {
					texts[token.Name] = token.Text
				}
				// In the short form, fewer than the clients begin within the timeout of Redis: none
				// are sent late.
				return load{tokens: texts, rate: either(40*.67, 15), clients: 40}
			},
			phases: []phase{
				{name: "usual", lasts: lasts},
				{"killed", s.redis.Kill, s.local, lasts},
				{"restarted", s.redis.Restart, s.counted, lasts},
				{"frozen", s.redis.Pause, s.local, lasts},
				{"thawed", s.redis.Resume, s.counted, lasts},
			},
			check: func(r *trial) {
				expectNone(s.T, fmt.Sprintf("denials of %d requests by 40 tokens within their limits", len(r.responses)), len(r.refused()))
				if local := s.sum(localDecisions); local < 40 {
					s.Errorf("%d requests were decided without Redis: no outage", local)
				}
			},
		},
	}
}

func (s *system) scriptFlushed() row {
	sent := func() int { return s.sum("opsgate_rate_limit_redis_script_reloads_total") }
	flushes := either(200, 20)
	return row{
		name: "ScriptFlushedFromRedisIsSentAgain", fresh: true, config: perSecond(1_000_000),
		load: func() load { return load{tokens: texts(s.T, "full", "read"), rate: 200, clients: 8} },
		phases: []phase{{name: "flushes", begin: func() {
			for range flushes {
				earlier := sent()
				testkit.Must(s.T, s.redis.Client().ScriptFlush(s.Context()).Err())
				testkit.Eventually(s.T, "the script is sent again", func() bool { return sent() > earlier })
				sleep(s.T, 50*time.Millisecond)
			}
		}}},
		check: func(r *trial) {
			expectNone(s.T, "refusals", len(r.refused()))
			expectNone(s.T, "decisions without Redis", s.sum(localDecisions))
			report(s.T, fmt.Sprintf("times that the script was sent again, after %d flushes", flushes), sent(), "after each")
		},
	}
}

// outage is a row of an outage of Redis under requests of ten tokens. Two of them always exceed
// their limits, the others never do.
func (s *system) outage(t *testing.T, name string, fault phase, end func(), check func(r *trial, usual time.Duration)) row {
	t.Helper()
	all := tokens(t)
	return row{
		name: name, slow: true, fresh: true,
		config: perSecond(1_000_000) + fmt.Sprintf("  tokens:\n    %s: {limits: [{requests: 3, per: 1s}]}\n    %s: {limits: [{requests: 100, per: 10s}]}\n",
			all["full"].ID, all["read"].ID),
		load: func() load {
			return load{rate: 500, clients: 48, tokens: texts(s.T, "full", "read", "none", "servers:read", "metrics:read", "commands:read",
				"monitors:read", "incidents:read", "audit:read", "other_team")}
		},
		phases: []phase{
			{name: "usual", lasts: either(5*time.Second, 2*time.Second)}, fault, {again, end, s.counted, either(12*time.Second, 3*time.Second)},
		},
		check: func(r *trial) {
			check(r, r.between(r.first().Add(time.Second), r.began(without)).percentile(.99)) // in the first second connections are made
			if s.sum(localDecisions) == 0 {
				s.Error("no decision was local")
			}
			r.checkAdmissions(s.T)
			within(s.T, "until both gateways used Redis again", r.took(again), 5*time.Second)
		},
	}
}

// checkAdmissions checks the tokens with tight limits: the bounds of docs/operate/guarantees.md,
// "What remains". A window with the beginning or the end of the outage may have a share more of
// each gateway. In the others, two gateways admit four where three are allowed.
func (r *trial) checkAdmissions(t *testing.T) {
	t.Helper()
	three, hundred := r.to("full").admitted(), r.to("read").admitted()
	seconds := math.Ceil(r.last().Sub(r.first()).Seconds())
	atMost(t, "100 per 10s: admitted in any 10 s", hundred.maxIn(10*time.Second), 100+2*50)
	atMost(t, fmt.Sprintf("100 per 10s: admitted in %.0f s", seconds), len(hundred), 101*int(math.Ceil(seconds/10))+2*50)
	atMost(t, "3 per 1s: admitted in any second", three.maxIn(time.Second), 3+2*2)
	atMost(t, fmt.Sprintf("3 per 1s: admitted in %.0f s", seconds), len(three), 4*int(seconds)+2*2*2)
}

// stoppedAndStarved stops one of two gateways for a second, several times, and then lets it run for
// a fifth of each tenth of a second: Redis works, and answers within the timeout when the gateway
// runs.
func (s *system) stoppedAndStarved(t *testing.T) row {
	t.Helper()
	stop := func(times int, stopped, runs time.Duration) func() {
		return func() {
			for range times {
				s.gateways[0].Freeze(s.T)
				sleep(s.T, stopped)
				s.gateways[0].Thaw(s.T)
				sleep(s.T, runs)
			}
		}
	}
	return row{
		name: "GatewayIsStoppedAndStarved", slow: true, fresh: true,
		config: perSecond(1_000_000) + fmt.Sprintf("  tokens: {%s: {limits: [{requests: 20, per: 1s}]}}\n", tokens(t)["full"].ID),
		load: func() load {
			return load{tokens: texts(s.T, "full", "read", "none", "servers:read", "metrics:read"), rate: 300, clients: 32}
		},
		phases: []phase{
			{name: "usual", lasts: time.Second},
			// Longer than the timeout of Redis.
			{name: "stopped", begin: stop(either(5, 2), either(time.Second, 3*time.Second), time.Second)},
			{name: "starved", begin: stop(either(50, 10), 80*time.Millisecond, 20*time.Millisecond), lasts: 2 * time.Second},
		},
		check: func(r *trial) {
			report(s.T, fmt.Sprintf("outages, of %d requests", len(r.responses)), s.sum("opsgate_rate_limit_store_outages_total"), "few")
			admitted := r.to("full").admitted()
			atMost(s.T, "20 per 1s: admitted in any second, with the share of the gateway", admitted.maxIn(time.Second), 20+10)
			if len(admitted) < 20 {
				s.Errorf("%d requests admitted: the test checks nothing", len(admitted))
			}
		},
	}
}

// The master and one of three sentinels fail, and the other two make the replica the master. It
// lacks the last writes, or in the last case every account: then the limit may be admitted once
// more.
func TestSentinelsReplaceTheMaster(t *testing.T) {
	skipIfShort(t)
	for name, fail := range map[string]func(*redistest.SentinelGroup){
		"that is killed": func(w *redistest.SentinelGroup) {
			w.Sentinels[0].Kill()
			master, _ := w.Roles()
			master.Kill()
		},
		"that hangs": func(w *redistest.SentinelGroup) {
			w.Sentinels[0].Pause()
			master, _ := w.Roles()
			master.Pause()
		},
		"by an empty replica": func(w *redistest.SentinelGroup) {
			w.Sentinels[0].Kill()
			w.FailOverEmpty()
		},
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			sentinels := redistest.StartSentinelGroup(t, masterName)
			s := newSystem(t, nil, behindSentinels(t, sentinels))
			s.try(t, s.replacement(sentinels, fail))
		})
	}
}

// masterName is the name of the master at the sentinels.
const masterName = "main"

// behindSentinels returns a configuration in which two tokens exceed their limits.
func behindSentinels(t *testing.T, sentinels *redistest.SentinelGroup) string {
	t.Helper()
	addresses, all := sentinels.Addrs(), tokens(t)
	timeout := either(50*time.Millisecond, time.Second/2) // short enough that an outage begins before the sentinels replace the master
	return fmt.Sprintf("rate_limit:\n  store: redis\n  expected_replicas: 2\n"+
		"  redis: {mode: sentinel, master_name: %s, addresses: [\"%s\"], timeout: %v}\n"+
		"  limits: [{requests: 1000000, per: 1s}]\n  tokens:\n"+
		"    %s: {limits: [{requests: 10, per: 1s}]}\n    %s: {limits: [{requests: 100, per: 1h}]}\n",
		masterName, strings.Join(addresses, `", "`), timeout, all["full"].ID, all["read"].ID)
}

// replacement is a row of the failure of a master, and the promotion of its replica.
func (s *system) replacement(sentinels *redistest.SentinelGroup, fail func(*redistest.SentinelGroup)) row {
	const decided = `opsgate_rate_limit_redis_call_duration_seconds_count{operation="decide",outcome="ok"}`
	old, replica := sentinels.Roles()
	var before int
	return row{
		load: func() load {
			return load{tokens: texts(s.T, "full", "read", "servers:read", "monitors:read"), rate: 200, clients: 32}
		},
		phases: []phase{
			{name: "usual", lasts: time.Second},
			{without, func() { fail(sentinels) }, s.local, 0},
			{again, nil, s.counted, 0},
			{"all sentinels name the former replica", nil, func() bool { master, _ := sentinels.Roles(); return master == replica }, 0},
			{"Redis decides", func() {
				old.Restart() // empty: it would admit any request
				before = s.sum(decided)
			}, func() bool { return s.sum(decided) >= before+100 }, 0},
			{"both gateways are subscribed at the new master", nil, func() bool {
				const channel = "opsgate:refunds"
				return replica.Client().PubSubNumSub(s.Context(), channel).Val()[channel] == int64(len(s.gateways))
			}, either(5*time.Second, time.Second)},
		},
		check: func(r *trial) { r.checkReplacement(s.T, s.sum(localDecisions)) },
	}
}

func (r *trial) checkReplacement(t *testing.T, local int) {
	t.Helper()
	usual := r.before(without).percentile(.99)
	within(t, fmt.Sprintf("slowest request after the master failed (p99 %v before)", tenths(usual)),
		r.since(without).percentile(1), usual+60*time.Millisecond)
	// After a pause of two seconds, a sentinel ignores everything for 30 s (TILT mode).
	within(t, "until both gateways used the former replica", r.times[again].reached.Sub(r.began(without)), either(15*time.Second, 45*time.Second))
	ten, hundred := r.to("full"), r.to("read")
	if len(ten.refused()) == 0 || len(hundred.refused()) == 0 {
		t.Errorf("refused: %d of 10 per second, %d of 100 per hour", len(ten.refused()), len(hundred.refused()))
	}
	before := len(r.before(without).to("read").admitted())
	report(t, "100 per 1h: admitted before the master failed", before, "some")
	if before == 0 || local == 0 {
		t.Errorf("%d of 100 admitted before the master failed, %d decided without Redis: the test checks nothing", before, local)
	}
	// The former replica may lack every account; a share of each gateway is in addition.
	atMost(t, "100 per 1h: admitted", len(hundred.admitted()), 2*100+2*50)
	atMost(t, "10 per 1s: admitted in any second", ten.maxIn(time.Second), 2*10+2*5)
}
