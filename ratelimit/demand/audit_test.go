package demand_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

func audited(t rapid.TB, events []demand.Event, interruptions ...demand.Interruption) *demand.AuditReport {
	t.Helper()
	report, err := demand.Audit(sequence(events...), demand.AuditOptions{Interruptions: func() []demand.Interruption { return interruptions }})
	testkit.Must(t, err)
	return report
}

// A schedule makes requests of three tokens with a memory store and records them.
type schedule struct {
	t        *rapid.T
	store    *ratelimit.Memory
	recorder *recording
	now      time.Time
	policies []*ratelimit.Policy // one of them is in force
	changes  bool                // draw resets and changes of the policy
}

func (s *schedule) run(requests int) {
	ctx := s.t.Context()
	p := s.policies[0]
	for range requests {
		s.wait("pause", 500*time.Millisecond)
		id := fmt.Sprintf("tok_%d", rapid.IntRange(0, 2).Draw(s.t, "token"))
		d, _ := s.store.Decide(ctx, id, p)
		s.recorder.Decided("", id, "harbour", p, &d)
		then := rapid.IntRange(0, 19).Draw(s.t, "then")
		switch {
		case then < 2:
			s.wait("answer", 50*time.Millisecond)
			_ = s.store.Refund(ctx, id, d)
			s.recorder.Refunded(id, &d)
		case then == 2 && s.changes:
			_ = s.store.Reset(ctx, id)
			s.recorder.Reset(id)
		case then < 5 && s.changes:
			p = rapid.SampledFrom(s.policies).Draw(s.t, "policy")
		}
	}
}

func (s *schedule) wait(name string, most time.Duration) {
	s.now = s.now.Add(time.Duration(rapid.Int64Range(0, most.Microseconds()).Draw(s.t, name)) * time.Microsecond)
}

// generated returns the events of a generated schedule, from a file.
func generated(t *testing.T, rt *rapid.T, path string, changes bool) []demand.Event {
	t.Helper()
	s := &schedule{t: rt, now: noon(), changes: changes}
	clock := func() time.Time { return s.now }
	s.store, s.recorder = ratelimit.NewMemory(clock), record(t, demand.Options{Path: path, Clock: clock})
	for range rapid.IntRange(1, 4).Draw(rt, "policies") {
		s.policies = append(s.policies, policyOf(rt, drawLimits(rt)...))
	}
	s.run(rapid.IntRange(1, 300).Draw(rt, "requests"))
	s.recorder.stop()
	events, _ := read(t, path)
	return events
}

func TestAuditOfARealLimiterFindsNoViolation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		events := generated(t, rt, path(t), true)
		got := audited(rt, events)
		if got.Violations() > 0 || got.Unknown > 0 || got.Requests == 0 {
			rt.Fatalf("got %+v", got)
		}
		for _, k := range got.Tokens {
			if w := k.Worst; len(k.NotProved) == 0 && w.Admitted > w.Limit.Requests {
				rt.Fatalf("got %+v", k)
			}
		}
	})
}

// counts counts the admissions that were not refunded in each window that ends with one, the simple way. It returns the fullest window above
// each limit, the first of them.
func counts(events []demand.Event, token string, p *ratelimit.Policy) (above []demand.Window) {
	var admitted []time.Time
	for _, e := range events {
		if e.TokenID == token && e.Allowed {
			admitted = append(admitted, e.At)
		}
	}
	for _, e := range events {
		if e.TokenID == token && !e.RefundOf.IsZero() {
			i := slices.IndexFunc(admitted, e.RefundOf.Equal)
			admitted = slices.Delete(admitted, i, i+1)
		}
	}
	for _, l := range p.Limits() {
		var worst demand.Window
		for _, end := range admitted {
			w := demand.Window{Limit: l, To: end}
			for _, at := range admitted {
				if at.After(end) || !at.Add(l.Per).After(end) {
					continue
				}
				if w.Admitted++; w.From.IsZero() {
					w.From = at
				}
			}
			if !l.Shadow && w.Admitted > l.Requests && w.Admitted > worst.Admitted {
				worst = w
			}
		}
		if worst.Admitted > 0 {
			above = append(above, worst)
		}
	}
	return above
}

func TestAuditFindsOneMoreAdmission(t *testing.T) {
	found := 0
	rapid.Check(t, func(rt *rapid.T) {
		events := generated(t, rt, path(t), false)
		at := rapid.IntRange(0, len(events)-1).Draw(rt, "planted after")
		p := events[0].Policy
		extra := demand.Event{At: events[at].At.Add(1000), TokenID: "tok_1", TeamID: "harbour", Allowed: true, Policy: p}
		events = append(events, extra)
		slices.SortStableFunc(events, func(x, y demand.Event) int { return x.At.Compare(y.At) })
		want := counts(events, "tok_1", p)
		for _, k := range audited(rt, events).Tokens {
			if k.TokenID != "tok_1" {
				want := counts(events, k.TokenID, p)
				if len(want)+len(k.Above) > 0 {
					rt.Fatalf("got %+v", k)
				}
				continue
			}
			if fmt.Sprint(k.Above) != fmt.Sprint(want) || len(k.NotProved) > 0 {
				rt.Fatalf("got %+v, want %+v", k, want)
			}
			found += len(want)
		}
	})
	if found == 0 {
		t.Error("no planted admission was above a limit")
	}
}

func TestAuditNamesTheCauseOfAWindowAboveItsLimit(t *testing.T) {
	ten, three := policyOf(t, limit("second", 10, time.Second)), policyOf(t, limit("second", 3, time.Second))
	minute := policyOf(t, limit("minute", 3, time.Minute))
	at := func(ms int) time.Time { return noon().Add(time.Duration(ms) * time.Millisecond) }
	requests := func(p *ratelimit.Policy, n, fromMS int, local bool) (events []demand.Event) {
		for i := range n {
			events = append(events, demand.Event{At: at(fromMS + i), TokenID: "tok_1", Allowed: true, Policy: p, Local: local})
		}
		return events
	}
	interrupted := func(kind demand.Kind, from, to int) []demand.Interruption {
		return []demand.Interruption{{Kind: kind, From: at(from), To: at(to)}}
	}
	reset := []demand.Event{{At: at(500), TokenID: "tok_1", Reset: true}}
	for name, test := range map[string]struct {
		events        []demand.Event
		interruptions []demand.Interruption
		above         int
		kind          demand.Kind // of the cause of windows above the limit
	}{
		"as many as allowed":                {events: requests(three, 3, 0, false)},
		"one more":                          {events: requests(three, 4, 0, false), above: 1},
		"a second apart":                    {events: append(requests(three, 3, 0, false), requests(three, 3, 1000, false)...)},
		"a millisecond less":                {events: append(requests(three, 3, 0, false), requests(three, 3, 999, false)...), above: 1},
		"a reset":                           {events: slices.Concat(requests(three, 3, 0, false), reset, requests(three, 3, 600, false)), kind: demand.TokenReset},
		"a reset, and then too many":        {events: slices.Concat(requests(minute, 3, 0, false), reset, requests(minute, 4, 1600, false)), above: 1, kind: demand.TokenReset},
		"a lower limit":                     {events: append(requests(ten, 10, 0, false), requests(three, 3, 1100, false)...)},
		"a lower limit that is not applied": {events: append(requests(ten, 2, 0, false), requests(three, 3, 500, false)...), above: 1},
		"a longer limit":                    {events: slices.Concat(requests(three, 3, 0, false), requests(minute, 3, 1100, false)), kind: demand.LimitsChanged},
		"a longer limit, and then too many": {events: slices.Concat(requests(three, 3, 0, false), requests(minute, 4, 1100, false)), kind: demand.LimitsChanged, above: 1},
		"an outage":                         {events: append(requests(three, 3, 0, false), requests(three, 2, 100, true)...), kind: demand.Outage},
		"an outage, and more than promised": {events: append(requests(three, 3, 0, false), requests(three, 3, 100, true)...), above: 1, kind: demand.Outage},
		"an outage that left the window":    {events: append(requests(three, 1, 0, true), requests(three, 4, 1000, false)...), above: 1},
		"events missing":                    {events: requests(three, 4, 0, false), kind: demand.EventsMissing, interruptions: interrupted(demand.EventsMissing, -900, -800)},
		"events missing before":             {events: requests(three, 4, 0, false), above: 1, interruptions: interrupted(demand.EventsMissing, -1100, -1000)},
		"events missing at an unknown time": {events: requests(three, 4, 0, false), kind: demand.EventsMissing, interruptions: []demand.Interruption{{Kind: demand.EventsMissing}}},
		"a clock set back":                  {events: requests(three, 4, 0, false), kind: demand.ClockSetBack, interruptions: interrupted(demand.ClockSetBack, 2, 5000)},
		"a start":                           {events: append(requests(three, 3, 0, false), requests(three, 3, 500, false)...), kind: demand.GatewayStarted, interruptions: interrupted(demand.GatewayStarted, 2, 500)},
		"a start, and then too many":        {events: append(requests(three, 3, 0, false), requests(three, 4, 500, false)...), kind: demand.GatewayStarted, above: 1, interruptions: interrupted(demand.GatewayStarted, 2, 500)},
	} {
		t.Run(name, func(t *testing.T) {
			k := audited(t, test.events, test.interruptions...).Tokens[0]
			if len(k.Above) != test.above {
				t.Errorf("got %+v", k)
			}
			switch {
			case test.kind == "":
				if len(k.NotProved) > 0 {
					t.Errorf("got %+v", k.NotProved)
				}
			case !slices.ContainsFunc(append(k.Above, k.NotProved...), func(w demand.Window) bool { return w.Cause.Kind == test.kind }):
				t.Errorf("no cause %s: got %+v", test.kind, k)
			}
		})
	}
}

func TestAuditWithoutLimitsAssumesThemOrCountsNone(t *testing.T) {
	events := burst("tok_1", "harbour", noon(), 4)
	if got := audited(t, events); got.Unknown != 4 || got.Violations() != 0 || got.Tokens[0].Worst.Admitted != 0 {
		t.Errorf("got %+v", got)
	}
	p := policies(t, policyOf(t, limit("second", 9, time.Second)), policyOf(t, limit("second", 3, time.Second)))
	got, err := demand.Audit(sequence(events...), demand.AuditOptions{Assumed: always(p)})
	if err != nil || got.Unknown != 0 || got.Assumed != 4 || got.Violations() != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func BenchmarkAudit(b *testing.B) {
	benchmark(b, func(_ *ratelimit.Policies, events []demand.Event) { audited(b, events) })
}
