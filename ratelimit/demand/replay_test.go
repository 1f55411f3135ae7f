package demand_test

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

func limit(name string, requests int, per time.Duration) ratelimit.Limit {
	return ratelimit.Limit{Name: name, Requests: requests, Per: per}
}

func policyOf(t rapid.TB, limits ...ratelimit.Limit) *ratelimit.Policy {
	t.Helper()
	p, err := ratelimit.NewPolicy(limits)
	testkit.Must(t, err)
	return p
}

// policies returns a default, and a class for the team harbour.
func policies(t rapid.TB, def, harbour *ratelimit.Policy) *ratelimit.Policies {
	t.Helper()
	p, err := ratelimit.NewPolicies(ratelimit.Assignment{Key: "rate_limit.limits", Policy: def},
		ratelimit.Assignment{Class: "partner", Key: "rate_limit.classes.partner", Policy: harbour, Teams: []string{"harbour"}})
	testkit.Must(t, err)
	return p
}

func always(p *ratelimit.Policies) demand.PoliciesAt {
	return func(time.Time) (*ratelimit.Policies, error) { return p, nil }
}

func sequence(events ...demand.Event) iter.Seq2[demand.Event, error] {
	return func(yield func(demand.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func replayed(t rapid.TB, p *ratelimit.Policies, events iter.Seq2[demand.Event, error]) *demand.Report {
	t.Helper()
	report, err := demand.Replay(events, always(p))
	testkit.Must(t, err)
	return report
}

// aligned returns the clock of a store that starts at the same time as that of a replay.
func aligned(now *time.Time) func() time.Time {
	started := false
	return func() time.Time {
		if !started {
			started = true
			return time.UnixMicro(1 << 50)
		}
		return *now
	}
}

// drawLimits draws limits: exact ones, larger ones and limits in shadow.
func drawLimits(t *rapid.T) []ratelimit.Limit {
	limits := []ratelimit.Limit{limit("second", rapid.IntRange(1, 5).Draw(t, "a second"), time.Second)}
	if rapid.Bool().Draw(t, "has minutes") {
		limits = append(limits, limit("minute", rapid.IntRange(10, 200).Draw(t, "a minute"), time.Minute))
	}
	if rapid.Bool().Draw(t, "has shadow") {
		l := limit("trial", rapid.IntRange(1, 100).Draw(t, "on trial"), 10*time.Second)
		l.Shadow = true
		limits = append(limits, l)
	}
	return limits
}

func TestReplayUnderTheSameLimitsDecidesTheSame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := noon()
		store := ratelimit.NewMemory(aligned(&now))
		p := policies(rt, policyOf(rt, drawLimits(rt)...), policyOf(rt, drawLimits(rt)...))
		file := path(t)
		r := record(t, demand.Options{Path: file, Clock: func() time.Time { return now }})
		var denied uint64
		requests := rapid.IntRange(1, 400).Draw(rt, "requests")
		for range requests {
			now = now.Add(time.Duration(rapid.Int64Range(0, 500_000).Draw(rt, "pause")) * time.Microsecond)
			id := fmt.Sprintf("tok_%d", rapid.IntRange(0, 2).Draw(rt, "token"))
			team := map[string]string{"tok_0": "harbour", "tok_1": "lighthouse", "tok_2": "harbour"}[id]
			a := p.For(team, id)
			d, _ := store.Decide(t.Context(), id, a.Policy)
			r.Decided("", id, team, a.Policy, &d)
			if !d.Allowed {
				denied++
			}
			now = now.Add(time.Duration(rapid.Int64Range(0, 50_000).Draw(rt, "answer")) * time.Microsecond)
			switch rapid.IntRange(0, 19).Draw(rt, "then") {
			case 0, 1:
				_ = store.Refund(t.Context(), id, d)
				r.Refunded(id, &d)
			case 2:
				_ = store.Reset(t.Context(), id)
				r.Reset(id)
			}
		}
		r.stop()
		events, _ := read(t, file)
		got := replayed(rt, p, sequence(events...))
		if got.NewlyDenied != 0 || got.NewlyAdmitted != 0 || got.Before != got.After || got.Before.Denied != denied || got.Requests != uint64(requests) {
			rt.Fatalf("%d denied of %d, got %+v", denied, requests, got)
		}
		for _, l := range got.Limits {
			if !l.Limit.Shadow && l.Before != l.After {
				rt.Fatalf("got %+v", l)
			}
		}
	})
}

// burst returns n admitted requests of a token, a nanosecond apart.
func burst(id, team string, at time.Time, n int) []demand.Event {
	var events []demand.Event
	for i := range n {
		events = append(events, demand.Event{At: at.Add(time.Duration(i)), TokenID: id, TeamID: team, Allowed: true})
	}
	return events
}

func TestReportComparesDecisions(t *testing.T) {
	shadow := limit("trial", 1, time.Minute)
	shadow.Shadow = true
	p := policies(t, policyOf(t, limit("second", 3, time.Second), shadow), policyOf(t, limit("minute", 2, time.Minute)))
	events := burst("tok_1", "lighthouse", noon(), 5)                                 // the new limits deny two of them
	events = append(events, burst("tok_2", "harbour", noon().Add(time.Second), 3)...) // and one of these
	events = append(events,
		demand.Event{At: noon().Add(10 * time.Second), TokenID: "tok_1", TeamID: "lighthouse", Denied: "hour", RetryAfter: time.Minute},
		demand.Event{At: noon().Add(20 * time.Second), TokenID: "tok_1", TeamID: "lighthouse", Denied: "hour", RetryAfter: 50 * time.Second, Local: true, Cached: true},
		demand.Event{At: noon().Add(2 * time.Minute), TokenID: "tok_1", TeamID: "lighthouse", Denied: "second", RetryAfter: time.Second},
		demand.Event{At: noon().Add(time.Minute), TokenID: "tok_2", TeamID: "harbour", Allowed: true},
	)
	got := replayed(t, p, sequence(events...))

	if got.Requests != 12 || !got.From.Equal(noon()) || !got.To.Equal(noon().Add(2*time.Minute)) ||
		got.NewlyDenied != 4 || got.NewlyAdmitted != 3 || got.Local != 1 || got.Cached != 1 || got.Late != 1 || got.Window != time.Minute || got.Uncertain != 10 {
		t.Errorf("got %+v", got)
	}
	wantLimits := []demand.LimitReport{
		{Key: "rate_limit.limits", Name: "second", Limit: limit("second", 3, time.Second), Before: 1, After: 2, NewlyDenied: 2},
		{Key: "rate_limit.limits", Name: "trial", Limit: shadow, After: 4},
		{Key: "rate_limit.limits", Name: "hour", Before: 2},
		{Key: "rate_limit.classes.partner", Name: "minute", Limit: limit("minute", 2, time.Minute), After: 2, NewlyDenied: 2},
	}
	if fmt.Sprintf("%+v", got.Limits) != fmt.Sprintf("%+v", wantLimits) {
		t.Errorf("limits:\n%+v, want\n%+v", got.Limits, wantLimits)
	}
	denials := func(admitted, denied uint64, duration, longest time.Duration) demand.Denials {
		return demand.Denials{Admitted: admitted, Denied: denied, Duration: duration, Longest: longest}
	}
	wantTokens := []demand.TokenReport{
		{
			TokenID: "tok_1", TeamID: "lighthouse", Key: "rate_limit.limits", Requests: 8,
			Before: denials(5, 3, 61*time.Second, time.Minute), After: denials(6, 2, time.Second, time.Second),
			NewlyDenied: 2, NewlyAdmitted: 3, First: noon().Add(3),
		},
		{
			TokenID: "tok_2", TeamID: "harbour", Key: "rate_limit.classes.partner", Requests: 4,
			Before: denials(4, 0, 0, 0), After: denials(2, 2, time.Minute, time.Minute),
			NewlyDenied: 2, First: noon().Add(time.Second + 2),
		},
	}
	for i := range got.Tokens { // the store decides in whole µs
		r := &got.Tokens[i].After
		r.Duration, r.Longest = r.Duration.Round(time.Millisecond), r.Longest.Round(time.Millisecond)
	}
	if fmt.Sprintf("%+v", got.Tokens) != fmt.Sprintf("%+v", wantTokens) {
		t.Errorf("tokens:\n%+v, want\n%+v", got.Tokens, wantTokens)
	}
}

func TestPoliciesOfTheTimeOfTheEventApply(t *testing.T) {
	strict := policies(t, policyOf(t, limit("minute", 1, time.Minute)), policyOf(t, limit("minute", 1, time.Minute)))
	lax := policies(t, policyOf(t, limit("minute", 100, time.Minute)), policyOf(t, limit("minute", 100, time.Minute)))
	until := noon().Add(time.Second)
	at := func(now time.Time) (*ratelimit.Policies, error) {
		if now.Before(until) {
			return lax, nil
		}
		return strict, nil
	}
	events := append(burst("tok_1", "", noon(), 5), burst("tok_1", "", until, 5)...)
	got, err := demand.Replay(sequence(events...), at)
	if err != nil || got.NewlyDenied != 5 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestReplayEndsWithAnErrorOfRecordOrPolicies(t *testing.T) {
	p := policies(t, policyOf(t, limit("minute", 1, time.Minute)), policyOf(t, limit("minute", 1, time.Minute)))
	_, err := demand.Replay(func(yield func(demand.Event, error) bool) { yield(demand.Event{}, errors.New("line 7 is bad")) }, always(p))
	if err == nil || !strings.Contains(err.Error(), "line 7 is bad") {
		t.Errorf("got %v", err)
	}
	_, err = demand.Replay(sequence(request(1)), func(time.Time) (*ratelimit.Policies, error) { return nil, errors.New("no policy") })
	if err == nil || !strings.Contains(err.Error(), "no policy") {
		t.Errorf("got %v", err)
	}
}

func TestRecordWithoutRequestsHasAnEmptyReport(t *testing.T) {
	p := policies(t, policyOf(t, limit("minute", 1, time.Minute)), policyOf(t, limit("minute", 1, time.Minute)))
	got := replayed(t, p, sequence(demand.Event{At: noon(), TokenID: "tok_1", Reset: true}, demand.Event{At: noon(), TokenID: "tok_1", RefundOf: noon()}))
	if got.Requests != 0 || len(got.Tokens) != 0 {
		t.Errorf("got %+v", got)
	}
}

// benchmark measures a report on 100,000 requests of 997 tokens, which have the policies.
func benchmark(b *testing.B, report func(p *ratelimit.Policies, events []demand.Event)) {
	b.Helper()
	p := policies(b, policyOf(b, limit("second", 3, time.Second), limit("hour", 5000, time.Hour)), policyOf(b, limit("minute", 2, time.Minute)))
	var events []demand.Event
	for i := range 100_000 {
		e := request(i)
		e.TokenID = fmt.Sprintf("tok_%d", i%997)
		e.Policy = p.For("", e.TokenID).Policy
		events = append(events, e)
	}
	for b.Loop() {
		report(p, events)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/request")
}

func BenchmarkReplay(b *testing.B) {
	benchmark(b, func(p *ratelimit.Policies, events []demand.Event) { replayed(b, p, sequence(events...)) })
}
