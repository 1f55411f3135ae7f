package demand

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"opsgate/ratelimit"
)

// An AuditReport is the result of an audit.
type AuditReport struct {
	Total

	Admitted uint64 `json:"admitted"`
	Refunded uint64 `json:"refunded"`
	Local    uint64 `json:"local"`          // requests that one gateway decided in place of the shared store
	Assumed  uint64 `json:"-"`              // requests with a policy that is assumed
	Unknown  uint64 `json:"without_limits"` // admissions without a policy: the windows that end with them are not counted

	Interruptions []Interruption `json:"-"`
	Periods       []Period       `json:"-"`
	Tokens        []TokenAudit   `json:"-"` // with violations first, then with windows that are not proved, then by their fullest window
}

// A TokenAudit is the audit of a token.
type TokenAudit struct {
	TokenID  string `json:"token_id"`
	TeamID   string `json:"team_id"`
	Requests uint64 `json:"requests"`
	Admitted uint64 `json:"admitted"`
	Refunded uint64 `json:"refunded"`

	Worst      Window   `json:"worst,omitzero"`   // the fullest one; zero for none
	Above      []Window `json:"above"`            // the fullest one above each limit
	Violations uint64   `json:"admissions_above"` // admissions with which a window was above its limit
	NotProved  []Window `json:"not_proved"`       // the fullest one above each limit that the limiter does not promise to hold, by cause
}

// A Window is the admissions of a token in an interval of the limit's length, from the first to the last, both included.
type Window struct {
	Limit    ratelimit.Limit
	From, To time.Time
	Admitted int
	Cause    Cause
}

// MarshalJSON writes the limit beside the other fields.
func (w Window) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Limit    string    `json:"limit"`
		Requests int       `json:"requests"`
		Per      float64   `json:"per_seconds"`
		From     time.Time `json:"from"`
		To       time.Time `json:"to"`
		Admitted int       `json:"admitted"`
		Cause    string    `json:"cause,omitempty"`
	}{w.Limit.Name, w.Limit.Requests, w.Limit.Per.Seconds(), w.From, w.To, w.Admitted, w.Cause.String()})
}

// A Cause is why a window may hold more than its limit. It is zero for none.
type Cause struct {
	Kind     Kind
	From, To time.Time // zero if they are not known
}

// String returns the kind and the time: outage 2026-01-02T12:00:00.000Z to 2026-01-02T12:03:00.000Z.
func (c Cause) String() string {
	if c.From.IsZero() {
		return string(c.Kind)
	}
	return string(c.Kind) + " " + SpanText(c.From, c.To)
}

// SpanText returns one time or two, in milliseconds.
func SpanText(from, to time.Time) string {
	if from.Equal(to) {
		return from.Format(TimeFormat)
	}
	return from.Format(TimeFormat) + " to " + to.Format(TimeFormat)
}

// TimeFormat is that of RFC 3339 with milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z07:00"

// The causes that are not interruptions of a record.
const (
	Outage        Kind = "outage"
	TokenReset    Kind = "reset"
	LimitsChanged Kind = "limits changed"
)

// Covered returns the time in which all records have requests, and reports whether there is such a time. Outside it, admissions by a
// gateway whose record begins later or ends earlier may be missing, so windows outside are not proved.
func (r *AuditReport) Covered() (from, to time.Time, ok bool) {
	from, to = r.From, r.To
	for _, p := range r.Periods {
		from = later(from, p.From)
		if p.To.Before(to) {
			to = p.To // also of a record without requests
		}
	}
	return from, to, !to.Before(from)
}

// Violations returns the number of tokens with a window above its limit.
func (r *AuditReport) Violations() int {
	return r.leading(func(t *TokenAudit) bool { return len(t.Above) > 0 })
}

// NotProved returns the number of tokens with windows above a limit, all of them with a cause.
func (r *AuditReport) NotProved() int {
	return r.leading(func(t *TokenAudit) bool { return len(t.Above)+len(t.NotProved) > 0 }) - r.Violations()
}

// leading returns the number of tokens for which f is true. These come first.
func (r *AuditReport) leading(f func(*TokenAudit) bool) (n int) {
	for n < len(r.Tokens) && f(&r.Tokens[n]) {
		n++
	}
	return n
}

func (r *AuditReport) sort() {
	rank := func(t *TokenAudit) int {
		switch {
		case len(t.Above) > 0:
			return 0
		case len(t.NotProved) > 0:
			return 1
		}
		return 2
	}
	slices.SortFunc(r.Tokens, func(x, y TokenAudit) int {
		return cmp.Or(cmp.Compare(rank(&x), rank(&y)), cmp.Compare(y.Worst.fullness(), x.Worst.fullness()), cmp.Compare(x.TokenID, y.TokenID))
	})
}

func (w *Window) fullness() float64 {
	if w.Admitted == 0 {
		return 0
	}
	return float64(w.Admitted) / float64(w.Limit.Requests)
}
