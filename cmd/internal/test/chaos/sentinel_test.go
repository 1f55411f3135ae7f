package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"opsgate/ratelimit/redisstore/redistest"
)

// The master and one of three sentinels fail, and the other two make the replica the master. It lacks the last writes, or in the last case
// every account. Gateways upload their accounts to it, so limits hold.
func TestSentinelsReplaceTheMaster(t *testing.T) {
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
			r := replacement{sentinels: redistest.StartSentinelGroup(t, masterName), fail: fail}
			r.run(t)
			r.check(t)
		})
	}
}

// masterName is the name of the master at the sentinels.
const masterName = "main"

// A replacement is the failure of a master under load, and the promotion of its replica.
type replacement struct {
	sentinels *redistest.SentinelGroup
	fail      func(*redistest.SentinelGroup)

	*trial

	decisions map[string]decisionTimes
}

func (r *replacement) run(t *testing.T) {
	t.Helper()
	gateways := startTwo(t, r.configuration(t))
	old, replica := r.sentinels.Roles()
	const decided = `opsgate_rate_limit_redis_call_duration_seconds_count{operation="decide",outcome="ok"}`
	var before int
	r.trial = load{
		gateways: gateways, tokens: texts(t, "full", "read", "servers:read", "monitors:read"), rate: 200, clients: 32,
	}.through(t,
		phase{"usual", nil, nil, time.Second},
		phase{without, func() { r.fail(r.sentinels) }, local(t, gateways), 0},
		phase{again, nil, counted(t, gateways), 0},
		phase{"all sentinels name the former replica", nil, func() bool { master, _ := r.sentinels.Roles(); return master == replica }, 0},
		phase{"Redis decides", func() {
			old.Restart() // empty: it would admit any request
			before = sum(t, gateways, decided)
		}, func() bool { return sum(t, gateways, decided) >= before+100 }, 0},
		phase{"both gateways are subscribed at the new master", nil, func() bool {
			const channel = "opsgate:refunds"
			return replica.Client().PubSubNumSub(t.Context(), channel).Val()[channel] == int64(len(gateways))
		}, either(5*time.Second, time.Second)},
	)
	r.decisions = decisions(t, gateways)
}

// configuration returns a configuration with sentinels, in which two tokens exceed their limits.
func (r *replacement) configuration(t *testing.T) string {
	t.Helper()
	addresses, all := r.sentinels.Addrs(), tokens(t)
	timeout := either(50*time.Millisecond, time.Second/2) // as in withTightLimits
	return fmt.Sprintf("rate_limit:\n  store: redis\n  expected_replicas: 2\n"+
		"  redis: {mode: sentinel, master_name: %s, addresses: [\"%s\"], timeout: %v}\n"+
		"  limits: [{requests: 1000000, per: 1s}]\n  tokens:\n"+
		"    %s: {limits: [{requests: 10, per: 1s}]}\n    %s: {limits: [{requests: 100, per: 1h}]}\n%s",
		masterName, strings.Join(addresses, `", "`), timeout, all["full"].ID, all["read"].ID, recorded)
}

func (r *replacement) check(t *testing.T) {
	t.Helper()
	noneFailed(t, otherRow, r.responses)
	usual := r.before(without).percentile(.99)
	within(t, otherRow, fmt.Sprintf("slowest request after the master failed (p99 %v before)", tenths(usual)),
		r.since(without).percentile(1), usual+60*time.Millisecond)
	// After a pause of two seconds, a sentinel ignores everything for 30 s (TILT mode).
	within(t, otherRow, "until both gateways used the former replica", r.times[again].reached.Sub(r.began(without)), either(15*time.Second, 45*time.Second))
	limited := tokens(t)
	ten, hundred := r.decisions[limited["full"].ID], r.decisions[limited["read"].ID]
	for name, d := range map[string]decisionTimes{"full": ten, "read": hundred} {
		all := r.responses.to(name)
		if len(d.admitted) != len(all.admitted()) || len(all.refused()) == 0 {
			t.Errorf("%s: %d recorded of %d admitted, %d refused", name, len(d.admitted), len(all.admitted()), len(all.refused()))
		}
	}
	before := len(during(hundred.admitted, time.Time{}, r.began(without)))
	report(t, otherRow, "100 per 1h: admitted before the master failed", before, "some")
	if before == 0 || ten.local == 0 {
		t.Errorf("%d of 100 admitted before the master failed, %d of 10 per second without Redis: the test checks nothing", before, ten.local)
	}
	// An outage may exceed a limit by a twentieth. Calls to a hanging master are assumed to be executed, and are lost with it.
	atMost(t, otherRow, "100 per 1h: admitted", len(hundred.admitted), either(110, 125))
	// On a slow machine, one gateway may detect the outage long after the other: its share is in addition to the full limit.
	atMost(t, otherRow, "10 per 1s: admitted in any second", maxIn(ten.admitted, time.Second), either(12, 15))
}
