package chaos

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

func TestTwoGatewaysShareOneLimit(t *testing.T) {
	server := redistest.Start(t)
	gateways := startTwo(t, inRedis(server, "  limits: [{requests: 3, per: 1s}]\n"+recorded))
	duration := either(20*time.Second, 3*time.Second)
	all := load{gateways: gateways, clients: 20}.during(t, duration)
	noneFailed(t, "1", all)
	d := decisions(t, gateways)[tokens(t)["full"].ID]
	expectNone(t, "1", "admitted without Redis", d.local)
	atMost(t, "1", "admitted in any second, by Redis' clock", maxIn(d.admitted, time.Second), 3)
	least := int(3*duration.Seconds()) - 3
	report(t, "1", fmt.Sprintf("admitted in %v", duration), len(d.admitted), fmt.Sprint("at least ", least))
	if len(d.admitted) < least || len(d.admitted) != len(all.admitted()) {
		t.Errorf("%d admitted, %d seen by clients", len(d.admitted), len(all.admitted()))
	}
}

// Two gateways without a shared store exceed the limit: TestTwoGatewaysShareOneLimit can fail.
func TestTwoGatewaysWithoutRedisAdmitTwiceTheLimit(t *testing.T) {
	gateways := startTwo(t, "rate_limit:\n  limits: [{requests: 3, per: 1s}]\n"+recorded)
	all := load{gateways: gateways, clients: 4}.during(t, 1500*time.Millisecond)
	admitted := decisions(t, gateways)[tokens(t)["full"].ID].admitted
	if n := maxIn(admitted, time.Second); n <= 3 || len(admitted) != len(all.admitted()) {
		t.Errorf("%d admitted in a second; %d in all, %d seen by clients", n, len(admitted), len(all.admitted()))
	}
}

// Nine tokens make two requests per second each, while a tenth token of the team makes 500.
func TestBusyTokenDoesNotAffectOthers(t *testing.T) {
	skipIfShort(t)
	server := redistest.Start(t)
	limit := either(3, 10) // a slow machine sends delayed requests in bursts
	gateways := startTwo(t, inRedis(server, fmt.Sprintf("  limits: [{requests: %d, per: 1s}]\n", limit)))
	others := texts(t, "read", "none", "servers:read", "metrics:read", "scheduled-commands:read", "commands:read", "monitors:read",
		"incidents:read", "audit:read")
	each := either(2.0, 1) // requests a second
	usual := load{gateways: gateways, tokens: others, rate: each * float64(len(others)), clients: 16}
	duration := either(20*time.Second, 2*time.Second)
	usual.during(t, time.Second)
	alone := usual.during(t, duration)
	stop := load{gateways: gateways, rate: 500, clients: 32}.start(t)
	disturbed := usual.during(t, duration)
	busy := stop()
	noneFailed(t, "5", append(busy, disturbed...))
	expectNone(t, "5", "refusals of the others", len(disturbed.refused()))
	if len(busy.refused()) < len(busy)/2 {
		t.Errorf("only %d of %d requests of the busy token denied", len(busy.refused()), len(busy))
	}
	before := alone.percentile(.99)
	within(t, "5", fmt.Sprintf("p99 of the others (%v without the busy token)", tenths(before)), disturbed.percentile(.99), 2*before)
}

// 20 clients of one token wait for the time in retry-after. If all clients got the same time, each request would be denied 2.9 times in the
// short form, and 5.4 times in the full form.
func TestClientsThatHonorRetryAfterShareTheRate(t *testing.T) {
	skipIfShort(t)
	const clients, rate = 20, 3
	requests := either(3, 1) // of each client
	limits := fmt.Sprintf("rate_limit:\n  limits: [{requests: %d, per: 1s}, {requests: 5000, per: 1h}]\n", rate)
	g := startGateway(t, everyService(shared.address), limits)
	token := texts(t, "full")["full"]
	client := newClient(t, nil)
	each := make([]responses, clients)
	began := time.Now()
	var running sync.WaitGroup
	for i := range each {
		running.Go(func() {
			for admitted := 0; admitted < requests; {
				a := fetch(t.Context(), client, g.url+unknownServer, token)
				each[i] = append(each[i], a)
				if a.isAdmitted() {
					admitted++
					continue
				}
				seconds, err := strconv.Atoi(a.retryAfter)
				if err != nil || a.status != http.StatusTooManyRequests {
					t.Errorf("got %+v", a)
					return
				}
				sleep(t, time.Duration(seconds)*time.Second)
			}
		})
	}
	running.Wait()
	took := time.Since(began)
	all := slices.Concat(each...)
	if len(all.admitted()) != clients*requests {
		t.Fatalf("%d requests were admitted", len(all.admitted()))
	}
	ideal := clients * time.Duration(requests) * time.Second / rate
	within(t, "23", fmt.Sprintf("until %d clients of a token had %d requests each admitted", clients, requests),
		took, time.Duration(either(1.3, 1.6)*float64(ideal)))
	atMost(t, "23", fmt.Sprintf("denials of %d requests", clients*requests), len(all.refused()), either(20, 25)*clients*requests/10)
}

const (
	lastReload = "opsgate_config_last_reload_successful"
	refusals   = `opsgate_config_reloads_total{outcome="refused"}`
)

// Limits are raised and lowered, then the file becomes invalid and valid again. One gateway gets SIGHUP; the other one watches the file.
func TestLimitsChangeUnderLoad(t *testing.T) {
	skipIfShort(t)
	server := redistest.Start(t)
	limit := func(requests any) string {
		return inRedis(server, fmt.Sprintf("  limits: [{requests: %v, per: 1s}]\n", requests)+recorded)
	}
	gateways := startTwo(t, limit(3))
	const step = 4 * time.Second
	brief := either(step, time.Second/2)
	end := load{gateways: gateways, rate: 100, clients: 8}.start(t)
	change := func(after time.Duration, requests any) time.Time {
		sleep(t, after)
		at := time.Now()
		for _, g := range gateways {
			g.configure(t, limit(requests))
		}
		gateways[0].sighup(t)
		return at
	}
	up, down, invalid := change(brief, 10), change(step, 3), change(step, "many")
	testkit.Eventually(t, "both refuse the invalid file", func() bool { return sum(t, gateways, lastReload) == 0 })
	refused := time.Since(invalid)
	change(brief, 3)
	testkit.Eventually(t, "both have applied the valid file", func() bool { return sum(t, gateways, lastReload) == 2 })
	sleep(t, 2*brief)
	all := end()

	noneFailed(t, "6", all)
	inForce := func(policy string, from, to time.Time) (since time.Time) {
		t.Helper()
		since = from
		for _, a := range all.between(from, to) {
			if answered := a.sent.Add(a.took); a.policy != policy && answered.After(since) {
				since = answered
			}
		}
		within(t, "6", "until "+policy+" was in force on both", since.Sub(from), time.Second)
		return since
	}
	inForce(`"second";q=10;w=1`, up, down)
	threeInForce := inForce(`"second";q=3;w=1`, down, invalid)
	within(t, "6", "until both had refused the invalid file", refused, time.Second)
	expectNone(t, "6", "responses with another policy afterwards", len(all.between(invalid, time.Now()).filter(func(a response) bool {
		return a.policy != `"second";q=3;w=1`
	})))
	times := decisions(t, gateways)[tokens(t)["full"].ID].admitted
	ten, three := during(times, up, down), during(times, threeInForce, time.Now())
	atMost(t, "6", "admitted in any second with a limit of 10", maxIn(ten, time.Second), 10)
	atMost(t, "6", "admitted in any second with a limit of 3 again", maxIn(three, time.Second), 3)
	if len(three) == 0 || maxIn(ten, time.Second) < 8 || len(times) != len(all.admitted()) {
		t.Errorf("%d admitted in a second with a limit of 10, %d afterwards; %d of %d recorded",
			maxIn(ten, time.Second), len(three), len(times), len(all.admitted()))
	}
}

// during returns the times in [from, to).
func during(times []time.Time, from, to time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(times), func(at time.Time) bool { return at.Before(from) || !at.Before(to) })
}

// The configuration changes ten times a second; one in four changes is invalid.
func TestConfigurationChangesTenTimesASecond(t *testing.T) {
	skipIfShort(t)
	const first, apart = 1_000_000, 100 * time.Millisecond
	gateways := startTwo(t, configWithLimit(first, ""))
	changes := int(either(20*time.Second, 3*time.Second) / apart)
	wait := load{
		gateways: gateways, tokens: texts(t, "full", "read"), rate: 200, clients: 8, duration: time.Duration(changes)*apart + time.Second,
	}.start(t)
	valid := make([]time.Time, changes+1) // when each was written; zero for invalid changes
	mistakes := 0
	begun := time.Now()
	for i := 1; i <= changes; i++ {
		hangUp := i%8 < 4 // otherwise they watch the file
		if i%4 == 2 {
			mistakes++
			mistake(t, gateways, configWithLimit(first+i, "rate_limits: {}\n"), hangUp)
		} else {
			valid[i] = time.Now()
			configure(t, gateways, configWithLimit(first+i, ""), hangUp)
		}
		sleep(t, time.Duration(i)*apart-time.Since(begun))
	}
	all := wait()
	noneFailed(t, stormRow, all)
	report(t, stormRow, "invalid changes that both refused", mistakes, fmt.Sprint("all ", mistakes))
	var latest time.Duration
	underInvalid := 0
	for _, a := range all {
		var under int
		if _, err := fmt.Sscanf(a.policy, `"second";q=%d;`, &under); err != nil {
			t.Fatalf("unexpected policy %q", a.policy)
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
	expectNone(t, stormRow, "responses under an invalid change", underInvalid)
	within(t, stormRow, fmt.Sprintf("until each of %d valid changes, or a later one, was in force on both", changes-mistakes), latest, time.Second)
}

// configWithLimit returns a configuration that responses identify by the limit in RateLimit-Policy.
func configWithLimit(limit int, more string) string {
	return fmt.Sprintf("rate_limit: {limits: [{requests: %d, per: 1s}]}\n%s", limit, more)
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
