package demand

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"opsgate/ratelimit"
)

// AuditOptions are the options of an audit. All may be nil.
type AuditOptions struct {
	Assumed       PoliciesAt            // of requests whose policy is not in the record
	Interruptions func() []Interruption // of the record, after its events
	Periods       func() []Period       // of the record, after its events; nil for one gateway
}

// Audit counts the recorded admissions of each token in every window that ends with an admission, and compares the number with the limits
// of the policy that admitted it. No other window can have more. Admissions that were refunded at any time are left out, as the time of
// a refund is not by the clock of the store. It keeps 16 bytes of each admission. The same events give the same report.
func Audit(events iter.Seq2[Event, error], o AuditOptions) (*AuditReport, error) {
	a := &audit{options: o, report: new(AuditReport), tokens: make(map[string]*auditedToken), numbers: make(map[*ratelimit.Policy]int32)}
	for e, err := range events {
		if err != nil {
			return nil, fmt.Errorf("read the record: %w", err)
		}
		if err := a.step(&e); err != nil {
			return nil, err
		}
	}
	if o.Interruptions != nil {
		a.report.Interruptions = o.Interruptions()
	}
	if o.Periods != nil {
		a.report.Periods = o.Periods()
	}
	return a.finish(), nil
}

// noPolicy is the number of the policy of an admission whose limits are not known.
const noPolicy = -1

// An audit is the state of an audit.
type audit struct {
	options  AuditOptions
	report   *AuditReport
	tokens   map[string]*auditedToken
	policies []*ratelimit.Policy
	numbers  map[*ratelimit.Policy]int32 // indexes in policies
}

// An auditedToken is what the record has of a token. Times are µs since 1970, as the limits count them.
type auditedToken struct {
	TokenAudit
	counted []counted
	refunds []int64 // times of the refunded admissions
	resets  []int64
	changes []change
	last    *ratelimit.Policy // of the newest request that the store decided
}

// A counted is an admission that counts.
type counted struct {
	at     int64
	policy int32 // index in audit.policies, or noPolicy
	local  bool
}

// A change is a change of a token's policy. Admissions before since may not count after it, as no limit before it was longer.
type change struct{ at, since int64 }

func (a *audit) step(e *Event) error {
	t := a.tokens[e.TokenID]
	if t == nil {
		t = &auditedToken{TokenAudit: TokenAudit{TokenID: e.TokenID, Above: []Window{}, NotProved: []Window{}}} // [] in JSON
		a.tokens[e.TokenID] = t
	}
	switch {
	case e.Reset:
		t.resets = append(t.resets, e.At.UnixMicro())
		return nil
	case !e.RefundOf.IsZero():
		t.refunds = append(t.refunds, e.RefundOf.UnixMicro())
		return nil
	}
	policy, err := a.policyOf(e)
	if err != nil {
		return err
	}
	t.request(e, policy)
	if a.report.Total.count(e.At); e.Local {
		a.report.Local++
	}
	if !e.Allowed {
		return nil
	}
	number := int32(noPolicy)
	if policy == nil {
		a.report.Unknown++
	} else {
		number = a.number(policy)
	}
	t.counted = append(t.counted, counted{e.At.UnixMicro(), number, e.Local})
	return nil
}

// policyOf returns the policy that decided the request, or nil if it is not known.
func (a *audit) policyOf(e *Event) (*ratelimit.Policy, error) {
	if e.Policy != nil || a.options.Assumed == nil {
		return e.Policy, nil
	}
	policies, err := a.options.Assumed(e.At)
	if err != nil {
		return nil, fmt.Errorf("policies of %v: %w", e.At, err)
	}
	a.report.Assumed++
	return policies.For(e.TeamID, e.TokenID).Policy, nil
}

func (a *audit) number(p *ratelimit.Policy) int32 {
	n, ok := a.numbers[p]
	if !ok {
		n = int32(len(a.policies))
		a.numbers[p], a.policies = n, append(a.policies, p)
	}
	return n
}

// request counts a request and notes a change of policy. A denial from a cache changes no account.
func (t *auditedToken) request(e *Event, p *ratelimit.Policy) {
	t.Requests++
	t.TeamID = e.TeamID
	if p == nil || e.Cached {
		return
	}
	if t.last != nil && t.last != p {
		at := e.At.UnixMicro()
		t.changes = append(t.changes, change{at, at - longest(t.last, true).Microseconds() + 1})
	}
	t.last = p
}

// finish counts the windows of all tokens and returns the report.
func (a *audit) finish() *AuditReport {
	for _, t := range a.tokens {
		if t.Requests == 0 {
			continue
		}
		t.settle()
		a.report.Admitted += t.Admitted
		a.report.Refunded += t.Refunded
		for number := range a.policies {
			a.sweep(t, int32(number))
		}
		a.report.Tokens = append(a.report.Tokens, t.TokenAudit)
	}
	a.report.sort()
	return a.report
}

// settle sorts the admissions by time and removes the refunded ones.
func (t *auditedToken) settle() {
	slices.SortStableFunc(t.counted, func(x, y counted) int { return cmp.Compare(x.at, y.at) })
	slices.Sort(t.refunds)
	slices.Sort(t.resets)
	t.Admitted = uint64(len(t.counted))
	refunds := t.refunds
	t.counted = slices.DeleteFunc(t.counted, func(c counted) bool {
		for len(refunds) > 0 && refunds[0] < c.at {
			refunds = refunds[1:] // of an admission from before the record
		}
		if len(refunds) == 0 || refunds[0] != c.at {
			return false
		}
		refunds = refunds[1:]
		t.Refunded++
		return true
	})
}

// sweep counts the windows that end with the token's admissions under the policy.
func (a *audit) sweep(t *auditedToken, policy int32) {
	if !slices.ContainsFunc(t.counted, func(c counted) bool { return c.policy == policy }) {
		return
	}
	for _, l := range a.policies[policy].Limits() {
		if l.Shadow {
			continue
		}
		w := window{token: t, limit: l, per: l.Per.Microseconds()}
		for w.last = range t.counted {
			for t.counted[w.first].at <= t.counted[w.last].at-w.per {
				w.first++
			}
			if t.counted[w.last].policy == policy {
				w.evaluate(a.report.Interruptions)
			}
		}
	}
}
