package gateway

import (
	"strconv"
	"strings"
	"time"

	"opsgate/ratelimit"
)

// nearPart is the part of a limit that is left when a request is near it: less than a fifth, so more than 80 % is spent.
const nearPart = 5

// Terms are what all requests of one assignment have in common, made once.
type terms struct {
	assignment *ratelimit.Assignment
	header     []string // RateLimit-Policy; none of a limit in shadow
	limits     []termsLimit
}

// A termsLimit is what is told and counted of one limit.
type termsLimit struct {
	ratelimit.Limit
	cause    Cause  // of a request that it refuses
	field    string // how its member of the RateLimit field begins
	refusal  string // what a client is told that it refuses
	few      int    // fewer than these left is near
	counters *limitCounters
}

// newTerms returns the terms of every assignment, by their index. Assignments of one class whose limits have the same name share
// their counters.
func newTerms(policies *ratelimit.Policies, m *Metrics) []terms {
	type series struct {
		policy, limit string
		shadow        bool
	}
	known := make(map[series]*limitCounters)
	all := make([]terms, len(policies.All()))
	for _, a := range policies.All() {
		limits := make([]termsLimit, len(a.Policy.Limits()))
		first := true
		for i, l := range a.Policy.Limits() {
			key := series{a.Class, l.Name, l.Shadow}
			if known[key] == nil {
				known[key] = m.limitCounters(a.Class, l.Name, l.Shadow)
			}
			limits[i] = termsLimit{
				Limit: l, cause: limitCause(l.Name), field: quoted(l.Name, first) + ";r=", refusal: refusalText(l),
				few: (l.Requests + nearPart - 1) / nearPart, counters: known[key],
			}
			first = first && l.Shadow
		}
		all[a.Index()] = terms{assignment: a, header: []string{policyHeader(a.Policy)}, limits: limits}
	}
	return all
}

// count counts a decision: one increment for each limit that it spends in, or one for the limit that refuses.
func (t *terms) count(d *ratelimit.Decision) {
	if !d.Allowed {
		t.limits[d.Denied].counters.refused.Inc()
		return
	}
	for i := range t.limits {
		l := &t.limits[i]
		switch {
		case d.Shadowed == i:
			l.counters.refused.Inc()
		case d.Shadowed >= 0 && l.Shadow: // limits in shadow are decided together: nothing was spent in this one either
		case d.Budgets[i].Remaining < l.few:
			l.counters.near.Inc()
		default:
			l.counters.admitted.Inc()
		}
	}
}

// appendBudgets appends the RateLimit field: what is left of each limit, and in how many seconds there will be more.
func (t *terms) appendBudgets(b []byte, d *ratelimit.Decision) []byte {
	for i := range t.limits {
		l := &t.limits[i]
		if l.Shadow {
			continue
		}
		b = append(b, l.field...)
		b = strconv.AppendInt(b, int64(d.Budgets[i].Remaining), 10)
		b = append(b, ";t="...)
		b = strconv.AppendInt(b, wholeSeconds(d.Budgets[i].Reset), 10)
	}
	return b
}

// giveBack shows in a decision what it is when the request is given back. Where more than one request counts, the oldest of them
// still is what the next budget waits for.
func (t *terms) giveBack(d *ratelimit.Decision) {
	for i := range t.limits {
		b := &d.Budgets[i]
		if b.Remaining = min(b.Remaining+1, t.limits[i].Requests); b.Remaining == t.limits[i].Requests {
			b.Reset = 0
		}
	}
}

// policyHeader is the RateLimit-Policy field (draft-ietf-httpapi-ratelimit-headers): each limit's quota and window in seconds.
func policyHeader(p *ratelimit.Policy) string {
	var b strings.Builder
	for _, limit := range p.Limits() {
		if limit.Shadow {
			continue
		}
		b.WriteString(quoted(limit.Name, b.Len() == 0))
		b.WriteString(";q=")
		b.WriteString(strconv.Itoa(limit.Requests))
		b.WriteString(";w=")
		b.WriteString(strconv.FormatInt(wholeSeconds(limit.Per), 10))
	}
	return b.String()
}

// quoted begins a member of a structured field's list (RFC 9651): a string, whose two special characters are escaped.
func quoted(name string, first bool) string {
	name = strings.ReplaceAll(strings.ReplaceAll(name, `\`, `\\`), `"`, `\"`)
	if first {
		return `"` + name + `"`
	}
	return `, "` + name + `"`
}

// wholeSeconds rounds up: a client that waits that long has waited long enough.
func wholeSeconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}

// refusalText is what a client is told that a limit refuses.
func refusalText(l ratelimit.Limit) string { return "rate limit exceeded: " + limitText(l) }

// limitText says a limit in words: 3 requests per second.
func limitText(l ratelimit.Limit) string {
	var b strings.Builder
	b.WriteString(strconv.Itoa(l.Requests))
	b.WriteString(" request")
	if l.Requests != 1 {
		b.WriteByte('s')
	}
	b.WriteString(" per ")
	switch l.Per {
	case time.Second:
		b.WriteString("second")
	case time.Minute:
		b.WriteString("minute")
	case time.Hour:
		b.WriteString("hour")
	case 24 * time.Hour:
		b.WriteString("day")
	default:
		b.WriteString(l.Per.String())
	}
	return b.String()
}
