package demand

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"opsgate/ratelimit"
)

// maxRefundable is the number of newest admissions of a token that a replay can refund.
const maxRefundable = 128

// PoliciesAt returns the policies in force at a time.
type PoliciesAt func(at time.Time) (*ratelimit.Policies, error)

// Replay decides recorded requests under the policies, with a memory store, and reports the differences. The same events and policies
// give the same report.
func Replay(events iter.Seq2[Event, error], policies PoliciesAt) (*Report, error) {
	r := &replay{
		policies: policies, now: storeStart(), report: new(Report),
		tokens: make(map[string]*token), limits: make(map[limitKey]*limitTally),
	}
	r.store = ratelimit.NewMemory(func() time.Time { return r.now })
	var latest time.Time
	for e, err := range events {
		if err != nil {
			return nil, fmt.Errorf("read the record: %w", err)
		}
		if e.At.Before(latest) {
			r.report.Late++
		} else {
			latest = e.At
		}
		if err := r.step(&e); err != nil {
			return nil, err
		}
	}
	return r.finish(), nil
}

// storeStart is the time at which the simulated store starts. Any time is possible that differs from the times of the events by less than
// the maximum of a time.Duration.
func storeStart() time.Time { return time.UnixMicro(1 << 50) }

// A replay is a simulation.
type replay struct {
	policies PoliciesAt
	store    *ratelimit.Memory
	now      time.Time // of the store
	report   *Report
	tokens   map[string]*token
	limits   map[limitKey]*limitTally
}

// A token is the state of a token in a replay.
type token struct {
	TokenReport
	before, after denialPeriod
	assignment    *ratelimit.Assignment
	admitted      []admission // the newest ones of the record, oldest first
}

// An admission is an admission of the record, and the decision of the replay on it.
type admission struct {
	at       int64 // in the record, ns since 1970
	admitted bool
}

// step applies an event.
func (r *replay) step(e *Event) error {
	t := r.tokens[e.TokenID]
	if t == nil {
		t = &token{TokenReport: TokenReport{TokenID: e.TokenID}}
		r.tokens[e.TokenID] = t
	}
	r.now = e.At
	ctx := context.Background() // a memory store does not use it
	switch {
	case e.Reset:
		t.admitted = t.admitted[:0] // a later refund must not match them
		return r.store.Reset(ctx, e.TokenID)
	case !e.RefundOf.IsZero():
		return r.refund(ctx, t, e.RefundOf)
	}
	policies, err := r.policies(e.At)
	if err != nil {
		return fmt.Errorf("policies of %v: %w", e.At, err)
	}
	t.assignment = policies.For(e.TeamID, e.TokenID)
	t.TeamID, t.Key = e.TeamID, t.assignment.Key
	d, err := r.store.Decide(ctx, e.TokenID, t.assignment.Policy)
	if err != nil {
		return err
	}
	r.count(e, longest(t.assignment.Policy, false))
	t.compare(e, &d)
	r.countLimits(t.assignment, e, &d)
	return nil
}

// refund refunds the admission at a time, if the replay admitted it as well.
func (r *replay) refund(ctx context.Context, t *token, admittedAt time.Time) error {
	at := admittedAt.UnixNano()
	i := slices.IndexFunc(t.admitted, func(a admission) bool { return a.at == at })
	if i < 0 {
		return nil
	}
	a := t.admitted[i]
	t.admitted = slices.Delete(t.admitted, i, i+1)
	if !a.admitted {
		return nil
	}
	return r.store.Refund(ctx, t.TokenID, ratelimit.Decision{Allowed: true, At: admittedAt})
}

// longest returns the length of the policy's longest limit, or of its longest enforced one.
func longest(p *ratelimit.Policy, enforced bool) time.Duration {
	var window time.Duration
	for _, l := range p.Limits() {
		if !enforced || !l.Shadow {
			window = max(window, l.Per)
		}
	}
	return window
}

// count counts a request of the record. window is the length of the longest limit of its token.
func (r *replay) count(e *Event, window time.Duration) {
	report := r.report
	report.Total.count(e.At)
	report.Window = max(report.Window, window)
	if e.At.Before(report.From.Add(window)) {
		report.Uncertain++
	}
	if e.Local {
		report.Local++
	}
	if e.Cached {
		report.Cached++
	}
}

// compare compares the recorded decision with that of the replay.
func (t *token) compare(e *Event, d *ratelimit.Decision) {
	t.Requests++
	if e.Allowed {
		t.Before.Admitted++
		t.admitted = slices.Delete(t.admitted, 0, max(0, len(t.admitted)-maxRefundable+1))
		t.admitted = append(t.admitted, admission{at: e.At.UnixNano(), admitted: d.Allowed})
	} else {
		t.before.extend(&t.Before, e.At, e.RetryAfter)
	}
	if d.Allowed {
		t.After.Admitted++
	} else {
		t.after.extend(&t.After, e.At, d.RetryAfter)
	}
	switch {
	case e.Allowed && !d.Allowed:
		if t.NewlyDenied++; t.First.IsZero() {
			t.First = e.At
		}
	case !e.Allowed && d.Allowed:
		t.NewlyAdmitted++
	}
}

// countLimits counts the request for the limits that denied it, in the record and in the replay.
func (r *replay) countLimits(a *ratelimit.Assignment, e *Event, d *ratelimit.Decision) {
	limits := a.Policy.Limits()
	for i := range limits {
		l := r.limit(a, i, limits[i].Name)
		l.Limit = limits[i]
		if !d.Allowed && d.DeniedBy == i || d.ShadowDeniedBy == i {
			l.After++
			if e.Allowed && !d.Allowed {
				l.NewlyDenied++
			}
		}
	}
	if !e.Allowed {
		r.limit(a, len(limits), e.Denied).Before++
	}
}

func (r *replay) limit(a *ratelimit.Assignment, index int, name string) *limitTally {
	key := limitKey{a.Key, name}
	l := r.limits[key]
	if l == nil {
		l = &limitTally{
			LimitReport: LimitReport{Key: a.Key, Origin: a.Origin, Name: name},
			isDefault:   a.Class == ratelimit.ClassDefault, index: index,
		}
		r.limits[key] = l
	}
	return l
}

// finish returns the report.
func (r *replay) finish() *Report {
	report := r.report
	report.Limits, report.Tokens = sortedLimits(r.limits), sortedTokens(r.tokens)
	for i := range report.Tokens {
		t := &report.Tokens[i]
		report.Before.add(t.Before)
		report.After.add(t.After)
		report.NewlyDenied += t.NewlyDenied
		report.NewlyAdmitted += t.NewlyAdmitted
	}
	return report
}
