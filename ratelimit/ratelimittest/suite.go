package ratelimittest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"opsgate/internal/testkit"
	"opsgate/ratelimit"
)

// A Subject is gateways under test, which share accounts, and the clock that they decide by.
type Subject struct {
	Stores  []ratelimit.Store // one for each gateway
	Now     func() time.Time
	Advance func(time.Duration) // may be negative
}

// resolution is the smallest step of a store's clock. The times of a subject's clock are multiples
// of it.
const resolution = time.Microsecond

// step advances the clock by d, rounded up to the resolution.
func (s Subject) step(d time.Duration) {
	s.Advance((d + resolution - 1).Truncate(resolution))
}

// A Factory returns a subject with empty stores.
type Factory func(t rapid.TB) Subject

// Run runs the suite, with a new subject for each test.
func Run(t *testing.T, newSubject Factory) {
	t.Run("EvenRateUsesTheWholeHourlyLimit", func(t *testing.T) { evenRate(t, newSubject(t)) })
	t.Run("NoDenialAfterRetryAfter", func(t *testing.T) { noDenialAfterRetryAfter(t, newSubject(t)) })
	t.Run("DenialsAreNotRecorded", func(t *testing.T) { denialsRecordNothing(t, newSubject(t)) })
	t.Run("ClockStartsAtTheEpoch", func(t *testing.T) { clockAtTheEpoch(t, newSubject(t)) })
	t.Run("GatewaysWithDifferentLimits", func(t *testing.T) { differentLimits(t, newSubject) })
	t.Run("LimitThatLeavesShadowCountsEachAdmissionOnce", func(t *testing.T) { leaveShadow(t, newSubject(t)) })
	t.Run("WindowsThatWereTriedDisplaceNoOther", func(t *testing.T) { tryManyLengths(t, newSubject(t)) })
	t.Run("RefundOfAnAdmissionThatAWindowLacks", func(t *testing.T) { refundOfAMissingAdmission(t, newSubject(t)) })
	t.Run("LimitOfNoRequestsBlocks", func(t *testing.T) { blockAll(t, newSubject(t)) })
	RunSchedules(t, newSubject)
}

// RunSchedules runs the part of the suite that compares decisions of generated schedules with the
// oracle.
func RunSchedules(t *testing.T, newSubject Factory) {
	t.Run("OracleAgrees", rapid.MakeCheck(func(t *rapid.T) { compareWithOracle(t, newSubject(t)) }))
}

// Policy returns a policy of valid limits.
func Policy(t rapid.TB, limits ...ratelimit.Limit) *ratelimit.Policy {
	t.Helper()
	p, err := ratelimit.NewPolicy(limits)
	testkit.Must(t, err)
	return p
}

// defaultPolicy returns the default policy; docs/integrate/contract.md, "Rate limits".
func defaultPolicy(t rapid.TB) *ratelimit.Policy {
	return Policy(t, ratelimit.Limit{Name: "second", Requests: 3, Per: time.Second},
		ratelimit.Limit{Name: "hour", Requests: 5000, Per: time.Hour})
}

// gateway returns any gateway.
func (s Subject) gateway() ratelimit.Store { return s.Stores[rand.IntN(len(s.Stores))] }

func (s Subject) decide(t rapid.TB, token string, p *ratelimit.Policy) ratelimit.Decision {
	t.Helper()
	d, err := s.gateway().Decide(context.Background(), token, p)
	testkit.Must(t, err)
	return d
}

func (s Subject) peek(t rapid.TB, token string, p *ratelimit.Policy) ratelimit.Decision {
	t.Helper()
	d, err := s.gateway().Peek(context.Background(), token, p)
	testkit.Must(t, err)
	return d
}

func (s Subject) reset(t rapid.TB, token string) {
	t.Helper()
	testkit.Must(t, s.gateway().Reset(context.Background(), token))
}

func (s Subject) refund(t rapid.TB, token string, d ratelimit.Decision) {
	t.Helper()
	testkit.Must(t, s.gateway().Refund(context.Background(), token, d))
}

// policies returns the policies of schedules. They have the eight windows of an account: 0.1, 1, 7
// and 60 s, of times and of buckets but for the first, and 30 s of buckets.
func policies(t rapid.TB) []*ratelimit.Policy {
	limit := func(requests int, per time.Duration) ratelimit.Limit {
		return ratelimit.Limit{Name: fmt.Sprint(requests, per), Requests: requests, Per: per}
	}
	const tenth, second, week, minute = 100 * time.Millisecond, time.Second, 7 * time.Second, time.Minute
	return []*ratelimit.Policy{
		Policy(t, limit(3, second), limit(70, minute)),
		Policy(t, limit(10, second), limit(100, minute)),
		Policy(t, limit(3, tenth), limit(64, minute)),
		Policy(t, limit(65, second)),
		Policy(t, limit(5, minute)),
		Policy(t, limit(1000, minute)),
		Policy(t, limit(3, second), shadow(limit(10, week)), limit(70, minute), shadow(limit(80, 30*second))),
		Policy(t, limit(10, second), shadow(limit(3, second)), limit(300, minute), shadow(limit(70, minute))),
		Policy(t, limit(2, tenth), limit(66, week), limit(200, minute), limit(20, second)),
	}
}

// A game is a generated schedule of one or more configurations at once.
type game struct {
	Subject

	current  []*ratelimit.Policy // of the gateways
	tokens   map[string]*oracle
	admitted map[string][]ratelimit.Decision
}

// request makes a request to the gateway of a configuration.
func (g *game) request(t *rapid.T, id string, gateway int) ratelimit.Decision {
	d := check(t, g.Subject, gateway, id, g.tokens[id], g.current[gateway])
	if d.Allowed {
		g.admitted[id] = append(g.admitted[id], d)
	}
	return d
}

func compareWithOracle(t *rapid.T, s Subject) {
	all := policies(t)
	g := &game{Subject: s, tokens: map[string]*oracle{"one": {}, "two": {}}, admitted: map[string][]ratelimit.Decision{}}
	g.current = rapid.SliceOfN(rapid.SampledFrom(all), 1, 3).Draw(t, "policies")
	token, gateways := rapid.SampledFrom([]string{"one", "one", "one", "two"}), rapid.IntRange(0, len(g.current)-1)
	request := func(t *rapid.T) { g.request(t, token.Draw(t, "token"), gateways.Draw(t, "gateway")) }
	t.Repeat(map[string]func(*rapid.T){
		"request": request,
		"another": request,
		"burst": func(t *rapid.T) {
			id, gateway, turns := token.Draw(t, "token"), gateways.Draw(t, "gateway"), rapid.IntRange(0, 1).Draw(t, "turns")
			gap := rapid.SampledFrom([]time.Duration{0, 1, time.Millisecond, 77 * time.Millisecond, 700 * time.Millisecond})
			for range rapid.IntRange(2, 90).Draw(t, "requests") {
				g.step(gap.Draw(t, "gap"))
				g.request(t, id, gateway)
				gateway = (gateway + turns) % len(g.current)
			}
		},
		"wait":        func(t *rapid.T) { g.step(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "wait"))) },
		"wait longer": func(t *rapid.T) { g.step(time.Duration(rapid.Int64Range(0, int64(3*time.Minute)).Draw(t, "wait"))) },
		"wait for retry-after": func(t *rapid.T) {
			id, gateway := token.Draw(t, "token"), gateways.Draw(t, "gateway")
			d := g.request(t, id, gateway)
			if d.Allowed {
				return
			}
			g.Advance(d.RetryAfter - resolution)
			if early := g.request(t, id, gateway); early.Allowed || early.RetryAfter != resolution {
				t.Fatalf("just before retry-after: %+v", early)
			}
			g.Advance(resolution)
			if d = g.request(t, id, gateway); !d.Allowed {
				t.Fatalf("denied after retry-after: %+v", d)
			}
		},
		"refund": func(t *rapid.T) {
			id := token.Draw(t, "token")
			for range rapid.IntRange(1, 40).Draw(t, "refunds") {
				n := len(g.admitted[id])
				if n == 0 {
					t.Skip("nothing was admitted")
				}
				i := n - 1 - rapid.IntRange(0, n-1).Draw(t, "decision")
				d := g.admitted[id][i]
				g.admitted[id] = slices.Delete(g.admitted[id], i, i+1)
				g.refund(t, id, d)
				g.tokens[id].refund(d)
			}
		},
		"step back": func(t *rapid.T) {
			longest := rapid.SampledFrom([]time.Duration{time.Second, 90 * time.Second, 365 * 24 * time.Hour}).Draw(t, "longest")
			g.step(-time.Duration(rapid.Int64Range(1, int64(longest)).Draw(t, "step")))
			clear(g.admitted) // the store moves their times
		},
		"reset": func(t *rapid.T) {
			id := token.Draw(t, "token")
			g.reset(t, id)
			g.tokens[id].reset() // later refunds of earlier admissions change nothing
			g.Advance(time.Second)
		},
		"change a policy": func(t *rapid.T) {
			g.current[gateways.Draw(t, "gateway")] = rapid.SampledFrom(all).Draw(t, "policy")
		},
	})
}

// check makes a request to a gateway and compares the decision with the oracle.
func check(t rapid.TB, s Subject, gateway int, id string, o *oracle, p *ratelimit.Policy) ratelimit.Decision {
	t.Helper()
	at := s.Now()
	now := at.UnixMicro()
	one := Subject{Stores: s.Stores[gateway%len(s.Stores):][:1]}
	peeked := one.peek(t, id, p)
	d := one.decide(t, id, p)
	if !d.At.Equal(at) {
		t.Fatalf("decided at %v, not %v", d.At, at)
	}
	if o.set(now); !d.Cached {
		o.ask(p, now)
	}
	checkBudgets(t, o, p, d, peeked)
	if peeked.Allowed != d.Allowed || peeked.DeniedBy != d.DeniedBy ||
		(peeked.ShadowDeniedBy < 0) != (d.ShadowDeniedBy < 0) || peeked.RetryAfter != d.RetryAfter {
		t.Fatalf("peeked %+v, decided %+v", peeked, d)
	}
	if d.Allowed != (d.DeniedBy < 0) || d.Allowed != (d.RetryAfter == 0) || d.RetryAfter < 0 ||
		!d.Allowed && d.ShadowDeniedBy >= 0 {
		t.Fatalf("got %+v", d)
	}
	for i, l := range p.Limits() {
		by := d.DeniedBy
		if l.Shadow {
			by = d.ShadowDeniedBy
		}
		least, most := o.least(l, now), o.most(l, now)
		longest := l.Per + time.Duration(shapeOf(l).width())*time.Microsecond
		switch {
		case d.DeniedBy == i && d.RetryAfter > longest:
			t.Fatalf("%+v, later than the window of limit %s by more than its bucket: %+v", d, l.Name, l)
		case by == i && most < l.Requests:
			t.Fatalf("%+v, with at most %d of limit %s: %+v", d, most, l.Name, l)
		case by < 0 && d.Allowed && least >= l.Requests:
			t.Fatalf("%+v, with %d of limit %s: %+v", d, least, l.Name, l)
		}
	}
	if d.Allowed {
		o.admit(now)
	}
	return d
}

// checkBudgets compares what remains of each limit with the oracle and with the peek before the
// request.
func checkBudgets(t rapid.TB, o *oracle, p *ratelimit.Policy, d, peeked ratelimit.Decision) {
	t.Helper()
	recorded := 0
	if d.Allowed {
		recorded = 1
	}
	for i, l := range p.Limits() {
		b, now := d.Budgets[i], d.At.UnixMicro()
		remaining := func(used int) int { return max(0, l.Requests-used-recorded) }
		if smallest, largest := remaining(o.most(l, now)), remaining(o.least(l, now)); b.Remaining < smallest ||
			b.Remaining > largest {
			t.Fatalf("limit %s: %d remain, want %d to %d", l.Name, b.Remaining, smallest, largest)
		}
		if (b.Remaining == l.Requests) != (b.Reset == 0) || b.Reset < 0 {
			t.Fatalf("limit %s: %d of %d remain, reset in %v", l.Name, b.Remaining, l.Requests, b.Reset)
		}
		if peeked.Budgets[i].Remaining != b.Remaining && peeked.Budgets[i].Remaining != b.Remaining+recorded {
			t.Fatalf("limit %s: %d remained before, and now %d", l.Name, peeked.Budgets[i].Remaining, b.Remaining)
		}
	}
}

func shadow(l ratelimit.Limit) ratelimit.Limit {
	l.Name, l.Shadow = l.Name+" in shadow", true
	return l
}
