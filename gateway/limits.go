package gateway

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"opsgate/ratelimit"
)

// nearDivisor defines which requests are near a limit: the ones that leave less than 1/nearDivisor
// of the limit.
const nearDivisor = 5

// A limitSet has the limits of one assignment, with their response texts and counters.
type limitSet struct {
	assignment *ratelimit.Assignment
	header     []string // RateLimit-Policy, without shadow limits
	limits     []limitEntry
}

// A limitEntry has the response texts and counters of one limit.
type limitEntry struct {
	ratelimit.Limit
	cause         Cause
	lineCause     string // class/limit: cause of a denial for LineLimits.RateLimited
	itemPrefix    string // beginning of the item in the RateLimit header: "name";r=
	deniedText    string // error text of a 429
	nearThreshold int    // a request that leaves fewer is near the limit
	counters      *limitCounters
}

// newLimitSets returns the limitSet of each assignment, by the index of the assignment. Limits with
// the same name in assignments of the same class share their counters.
func newLimitSets(policies *ratelimit.Policies, m *Metrics) []limitSet {
	type series struct {
		policy, limit string
		shadow        bool
	}
	counters := make(map[series]*limitCounters)
	sets := make([]limitSet, len(policies.All()))
	for _, a := range policies.All() {
		limits := make([]limitEntry, len(a.Policy.Limits()))
		for i, l := range a.Policy.Limits() {
			key := series{a.Class, l.Name, l.Shadow}
			if counters[key] == nil {
				counters[key] = m.limitCounters(a.Class, l.Name, l.Shadow)
			}
			limits[i] = limitEntry{
				Limit: l, cause: limitCause(l.Name), lineCause: a.Class + "/" + l.Name, itemPrefix: quotedName(l.Name) + ";r=",
				deniedText:    deniedText(l),
				nearThreshold: (l.Requests + nearDivisor - 1) / nearDivisor, counters: counters[key],
			}
		}
		sets[a.Index()] = limitSet{assignment: a, header: []string{policyHeader(a.Policy)}, limits: limits}
	}
	return sets
}

// count counts a decision. A denied request counts for the limit that denies it. An allowed request
// counts for each limit. If a shadow limit would deny the request, the request counts as denied for
// that limit, and does not count for other shadow limits.
func (s *limitSet) count(d *ratelimit.Decision) {
	if !d.Allowed {
		s.limits[d.DeniedBy].counters.denied.Inc()
		return
	}
	for i := range s.limits {
		l := &s.limits[i]
		switch {
		case d.ShadowDeniedBy == i:
			l.counters.denied.Inc()
		case d.ShadowDeniedBy >= 0 && l.Shadow: // another shadow limit would deny it
		case d.Budgets[i].Remaining < l.nearThreshold:
			l.counters.near.Inc()
		default:
			l.counters.admitted.Inc()
		}
	}
}

// appendRemaining appends the RateLimit header to an empty buffer: for each limit, the number of
// remaining requests and the seconds until this number grows.
func (s *limitSet) appendRemaining(b []byte, d *ratelimit.Decision) []byte {
	for i := range s.limits {
		l := &s.limits[i]
		if l.Shadow {
			continue
		}
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = append(b, l.itemPrefix...)
		b = strconv.AppendInt(b, int64(d.Budgets[i].Remaining), 10)
		b = append(b, ";t="...)
		b = strconv.AppendInt(b, wholeSeconds(d.Budgets[i].Reset), 10)
	}
	return b
}

// describe returns the remaining requests of each limit, for operators.
func (s *limitSet) describe(d *ratelimit.Decision) string {
	items := make([]string, len(s.limits))
	for i := range s.limits {
		l, note := &s.limits[i], ""
		switch {
		case d.ShadowDeniedBy == i:
			note = " (shadow limit, would deny)"
		case l.Shadow:
			note = " (shadow limit)"
		}
		items[i] = fmt.Sprintf("%s: %d of %d left%s", l.Name, d.Budgets[i].Remaining, l.Requests, note)
	}
	return strings.Join(items, ", ")
}

// applyRefund updates the remaining requests of a decision as if the request had not been made. It
// changes Reset, the time until the oldest request leaves the window, only if no other request is
// in the window.
func (s *limitSet) applyRefund(d *ratelimit.Decision) {
	for i := range s.limits {
		b := &d.Budgets[i]
		if b.Remaining = min(b.Remaining+1, s.limits[i].Requests); b.Remaining == s.limits[i].Requests {
			b.Reset = 0
		}
	}
}

// policyHeader returns the RateLimit-Policy header (draft-ietf-httpapi-ratelimit-headers): quota
// and window in seconds of each limit.
func policyHeader(p *ratelimit.Policy) string {
	var items []string
	for _, l := range p.Limits() {
		if !l.Shadow {
			items = append(items, fmt.Sprintf("%s;q=%d;w=%d", quotedName(l.Name), l.Requests, wholeSeconds(l.Per)))
		}
	}
	return strings.Join(items, ", ")
}

// quotedName returns the name of a limit as a string of a structured field (RFC 9651).
func quotedName(name string) string {
	return `"` + strings.ReplaceAll(strings.ReplaceAll(name, `\`, `\\`), `"`, `\"`) + `"`
}

// wholeSeconds returns d in seconds, rounded up, so that a client never waits for less than d.
func wholeSeconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}

func deniedText(l ratelimit.Limit) string {
	if l.Requests == 0 {
		return "requests with this token are blocked: " + limitText(l)
	}
	return "rate limit exceeded: " + limitText(l)
}

// limitText describes a limit: 3 requests per second.
func limitText(l ratelimit.Limit) string {
	requests, per := "requests", l.Per.String()
	if l.Requests == 1 {
		requests = "request"
	}
	switch l.Per {
	case time.Second:
		per = "second"
	case time.Minute:
		per = "minute"
	case time.Hour:
		per = "hour"
	case 24 * time.Hour:
		per = "day"
	}
	return fmt.Sprintf("%d %s per %s", l.Requests, requests, per)
}
