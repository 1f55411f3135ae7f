package demand

import (
	"slices"
	"sort"
	"time"

	"opsgate/ratelimit"
)

// A window is the admissions of a token in an interval of a limit's length that ends with the last of them.
type window struct {
	token       *auditedToken
	limit       ratelimit.Limit
	per         int64 // µs
	first, last int   // indexes in token.counted, both included
}

func (w *window) admitted() int { return w.last - w.first + 1 }

// start and end are the times between which admissions are in the window: start exclusive, end inclusive.
func (w *window) start() int64 { return w.end() - w.per }
func (w *window) end() int64   { return w.token.counted[w.last].at }

// evaluate adds the window to the report of its token if it is the fullest one, or above its limit.
func (w *window) evaluate(interruptions []Interruption) {
	t := &w.token.TokenAudit
	if t.Worst.Admitted == 0 || w.admitted()*t.Worst.Limit.Requests > t.Worst.Admitted*w.limit.Requests {
		t.Worst = w.report()
	}
	if w.admitted() <= w.limit.Requests {
		return
	}
	cause, isViolation := w.cause(interruptions)
	list := &t.NotProved
	if isViolation {
		list = &t.Above
		t.Violations++
	}
	i := slices.IndexFunc(*list, func(other Window) bool { return other.Limit == w.limit && other.Cause.Kind == cause.Kind })
	if i >= 0 && (*list)[i].Admitted >= w.admitted() {
		return
	}
	r := w.report()
	r.Cause = cause
	if i < 0 {
		*list = append(*list, r)
	} else {
		(*list)[i] = r
	}
	if w.admitted() == t.Worst.Admitted && t.Worst.To.Equal(r.To) {
		t.Worst.Cause = cause
	}
}

func (w *window) report() Window {
	return Window{
		Limit: w.limit, Admitted: w.admitted(),
		From: time.UnixMicro(w.token.counted[w.first].at).UTC(), To: time.UnixMicro(w.end()).UTC(),
	}
}

// cause returns why the window may be above its limit, and reports whether it is above what is promised nevertheless.
func (w *window) cause(interruptions []Interruption) (_ Cause, isViolation bool) {
	since, cause := w.countsSince(interruptions)
	first := w.first + sort.Search(w.admitted(), func(i int) bool { return w.token.counted[w.first+i].at >= since })
	n := w.last - first + 1
	if n <= w.limit.Requests {
		return cause, false
	}
	for _, x := range interruptions {
		if x.Kind != GatewayStarted && w.touches(x) {
			return Cause{Kind: x.Kind, From: x.From, To: x.To}, false
		}
	}
	if outage, ok := w.outage(first); ok {
		return outage, n > promisedInOutage(w.limit.Requests)
	}
	return Cause{}, true
}

// countsSince returns the time before which the store may have dropped admissions of the window, and why.
func (w *window) countsSince(interruptions []Interruption) (since int64, cause Cause) {
	later := func(at, happened int64, kind Kind, named int64) {
		if at > since && happened <= w.end() && at > w.start() {
			since, cause = at, Cause{Kind: kind, From: time.UnixMicro(named).UTC(), To: time.UnixMicro(named).UTC()}
		}
	}
	for _, at := range w.token.resets { // by the clock of the gateway, and after the store has answered
		later(at+maxDelay.Microseconds(), at-maxDelay.Microseconds(), TokenReset, at)
	}
	for _, c := range w.token.changes {
		later(c.since, c.at, LimitsChanged, c.at)
	}
	for _, x := range interruptions {
		if x.Kind == GatewayStarted {
			later(x.To.UnixMicro(), x.To.UnixMicro(), GatewayStarted, x.To.UnixMicro())
		}
	}
	return since, cause
}

func (w *window) touches(x Interruption) bool {
	return x.From.IsZero() || x.From.UnixMicro() <= w.end() && x.To.UnixMicro() > w.start()
}

// outage returns the time from the first to the last admission, from the index on, that a gateway decided in place of the store, and
// reports whether there is one.
func (w *window) outage(first int) (Cause, bool) {
	c := Cause{Kind: Outage}
	for _, admission := range w.token.counted[first : w.last+1] {
		if !admission.local {
			continue
		}
		at := time.UnixMicro(admission.at).UTC()
		if c.From.IsZero() {
			c.From = at
		}
		c.To = at
	}
	return c, !c.From.IsZero()
}

// promisedInOutage returns how many requests a window may have in an outage: 5 % more, or two if the limit cannot be divided.
func promisedInOutage(requests int) int { return requests + max(2, requests/20) }
