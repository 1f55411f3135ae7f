package chaos

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

// TestSharedLimits breaks, floods, stops and reconfigures two gateways that count in one Redis, and
// that Redis.
func TestSharedLimits(t *testing.T) {
	redis := redistest.Start(t)
	s := newSystem(t, redis, inRedis(redis, ""))
	s.run(t, slices.Concat(s.admissions(), s.changes(), s.outages(t))...)
}

// admissions are rows without a fault: clients use more than their limits.
func (s *system) admissions() []row {
	duration := either(20*time.Second, 3*time.Second)
	const calm, disturbed = "without the busy token", "with the busy token"
	var busy func() responses
	return []row{
		{
			name: "TwoGatewaysShareOneLimit", fresh: true, config: perSecond(3), load: func() load { return load{clients: 20} },
			phases: []phase{{name: "usual", lasts: duration}},
			check: func(r *trial) {
				expectNone(s.T, "decided without Redis", s.sum(localDecisions))
				atMost(s.T, "admitted in any second", r.maxIn(time.Second), 3)
				admitted, least := len(r.admitted()), int(3*duration.Seconds())-3
				report(s.T, fmt.Sprintf("admitted in %v", duration), admitted, fmt.Sprint("at least ", least))
				if admitted < least {
					s.Errorf("%d admitted", admitted)
				}
			},
		},
		{
			// Nine tokens make two requests per second each, while a tenth token of the team makes
			// 500. A slow machine sends delayed requests in bursts: their limit is higher in the
			// short form.
			name: "BusyTokenDoesNotAffectOthers", slow: true,
			config: perSecond(either(3, 10)),
			load: func() load {
				return load{rate: either(2.0, 1) * 9, clients: 16, tokens: texts(s.T, "read", "none", "servers:read", "metrics:read",
					"scheduled-commands:read", "commands:read", "monitors:read", "incidents:read", "audit:read")}
			},
			phases: []phase{
				{name: "connections are made", lasts: time.Second},
				{name: calm, lasts: either(20*time.Second, 2*time.Second)},
				{
					name: disturbed, lasts: either(20*time.Second, 2*time.Second),
					begin: func() { busy = load{gateways: s.gateways, rate: 500, clients: 32}.start(s.T) },
				},
			},
			check: func(r *trial) {
				flood := busy()
				noneFailed(s.T, flood)
				expectNone(s.T, "refusals of the others", len(r.in(disturbed).refused()))
				if len(flood.refused()) < len(flood)/2 {
					s.Errorf("only %d of %d requests of the busy token denied", len(flood.refused()), len(flood))
				}
				before := r.in(calm).percentile(.99)
				within(s.T, fmt.Sprintf("p99 of the others (%v without the busy token)", tenths(before)), r.in(disturbed).percentile(.99), 2*before)
			},
		},
	}
}

const (
	lastReload = "opsgate_config_last_reload_successful"
	refusals   = `opsgate_config_reloads_total{outcome="refused"}`
)

// write replaces the configuration of the gateways. With hangUp they get SIGHUP; otherwise they
// watch the file.
func (s *system) write(limits string, hangUp bool) {
	s.Helper()
	s.used = s.common + limits
	configure(s.T, s.gateways, s.used, hangUp)
}

// changes are rows of changed configurations.
func (s *system) changes() []row { return []row{s.limitsChange(), s.configurationChanges()} }

// limitsChange raises and lowers limits, then the file becomes invalid and valid again. One gateway
// gets SIGHUP; the other one watches the file.
func (s *system) limitsChange() row {
	const ten, three, invalid, valid = "both admit 10", "both admit 3 again", "both refuse the invalid file", "both have applied the valid file"
	brief, step := either(4*time.Second, time.Second/2), 4*time.Second
	change := func(requests any) func() {
		return func() {
			s.write(perSecond(requests), false)
			s.gateways[0].sighup(s.T)
		}
	}
	reloads := func(n int) func() bool { return func() bool { return s.sum(lastReload) == n } }
	return row{
		name: "LimitsChangeUnderLoad", slow: true, config: perSecond(3), load: func() load { return load{rate: 100, clients: 8} },
		phases: []phase{
			{name: "usual", lasts: brief},
			{name: ten, begin: change(10), lasts: step},
			{name: three, begin: change(3), lasts: step},
			{name: invalid, begin: change("many"), until: reloads(0), lasts: brief},
			{name: valid, begin: change(3), until: reloads(2), lasts: 2 * brief},
		},
		check: func(r *trial) {
			inForce := func(phase, policy string) (since time.Time) {
				since = r.began(phase)
				for _, a := range r.all(phase) {
					if answered := a.sent.Add(a.took); a.policy != policy && answered.After(since) {
						since = answered
					}
				}
				within(s.T, "until "+policy+" was in force on both", since.Sub(r.began(phase)), time.Second)
				return since
			}
			const policy = `"second";q=3;w=1`
			inForce(ten, `"second";q=10;w=1`)
			threeInForce := inForce(three, policy)
			within(s.T, "until both had refused the invalid file", r.times[invalid].reached.Sub(r.began(invalid)), time.Second)
			expectNone(s.T, "responses with another policy afterwards", len(r.since(invalid).filter(func(a response) bool { return a.policy != policy })))
			high, low := r.between(r.began(ten), r.began(three)).maxIn(time.Second), r.between(threeInForce, time.Now()).maxIn(time.Second)
			atMost(s.T, "admitted in any second with a limit of 10", high, 10)
			atMost(s.T, "admitted in any second with a limit of 3 again", low, 3)
			if low == 0 || high < 8 {
				s.Errorf("%d admitted in a second with a limit of 10, %d afterwards", high, low)
			}
		},
	}
}

// perSecond is the configuration of a limit per second.
func perSecond(requests any) string {
	return fmt.Sprintf("  limits: [{requests: %v, per: 1s}]\n", requests)
}

// configurationChanges changes the configuration ten times a second; one in four changes is
// invalid. Responses identify it by the limit in RateLimit-Policy.
func (s *system) configurationChanges() row {
	const first, apart = 1_000_000, 100 * time.Millisecond
	changes := int(either(20*time.Second, 3*time.Second) / apart)
	valid := make([]time.Time, changes+1) // when each was written; zero for invalid changes
	return row{
		name: "ConfigurationChangesTenTimesASecond", slow: true, config: perSecond(first),
		load: func() load { return load{tokens: texts(s.T, "full", "read"), rate: 200, clients: 8} },
		phases: []phase{{name: "changes", lasts: time.Second, begin: func() {
			begun := time.Now()
			for i := 1; i <= changes; i++ {
				hangUp := i%8 < 4
				if i%4 == 2 {
					s.used = s.common + perSecond(first+i) + "rate_limits: {}\n"
					mistake(s.T, s.gateways, s.used, hangUp)
				} else {
					valid[i] = time.Now()
					s.write(perSecond(first+i), hangUp)
				}
				sleep(s.T, time.Duration(i)*apart-time.Since(begun))
			}
		}}},
		check: func(r *trial) {
			mistakes := (changes + 2) / 4
			report(s.T, "invalid changes that both refused", mistakes, fmt.Sprint("all ", mistakes))
			var latest time.Duration
			underInvalid := 0
			for _, a := range r.responses {
				var under int
				if _, err := fmt.Sscanf(a.policy, `"second";q=%d;`, &under); err != nil {
					s.Fatalf("unexpected policy %q", a.policy)
				}
				under -= first
				if under > 0 && valid[under].IsZero() {
					underInvalid++
				}
				for _, written := range valid[under+1:] { // the first later valid change
					if !written.IsZero() {
						latest = max(latest, a.sent.Sub(written))
						break
					}
				}
			}
			expectNone(s.T, "responses under an invalid change", underInvalid)
			within(s.T, fmt.Sprintf("until each of %d valid changes, or a later one, was in force on both", changes-mistakes), latest, time.Second)
		},
	}
}

func configure(t *testing.T, gateways []*gateway, config string, hangUp bool) {
	t.Helper()
	for _, g := range gateways {
		g.configure(t, config)
		if hangUp {
			g.sighup(t)
		}
	}
}

// mistake writes an invalid configuration, and returns when all gateways have refused it.
func mistake(t *testing.T, gateways []*gateway, config string, hangUp bool) {
	t.Helper()
	var before []float64
	for _, g := range gateways {
		before = append(before, g.metric(t, refusals))
	}
	configure(t, gateways, config, hangUp)
	for i, g := range gateways {
		testkit.Eventually(t, "a gateway refuses an invalid configuration", func() bool { return g.metric(t, refusals) > before[i] })
	}
}
