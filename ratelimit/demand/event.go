package demand

import (
	"encoding/json"
	"time"

	"opsgate/ratelimit"
)

// An Event is a request of a token and its decision, or a refund if RefundOf is set, or a reset if Reset is set.
type Event struct {
	At              time.Time // of a request, by the clock of the store
	TokenID, TeamID string
	Operation       string // of a request, as its row of the route table is named; empty if the record does not have it

	Allowed    bool
	Denied     string            // name of the limit that denied it; empty when allowed
	RetryAfter time.Duration     // of the denial
	Local      bool              // decided by the gateway in place of the shared store
	Cached     bool              // a denial that was repeated from the cache
	Policy     *ratelimit.Policy // that decided; nil if the record does not have it, as those of earlier versions

	RefundOf time.Time // time of the refunded admission
	Reset    bool      // the usage of the token was dropped
}

func (e *Event) isRequest() bool { return e.Allowed || e.Denied != "" }

// A Total is a number of requests, and the times of the first and the last of them.
type Total struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Requests uint64    `json:"requests"`
}

func (t *Total) count(at time.Time) {
	if t.Requests == 0 || at.Before(t.From) {
		t.From = at
	}
	t.To = later(t.To, at)
	t.Requests++
}

// A line is a line of a record: a header, a start or an end of the gateway, the gateways, a policy, an event, or a number of events that
// are missing.
type line struct {
	Format int     `json:"opsgate_demand,omitempty"`
	Sample float64 `json:"sample,omitempty"` // 0 to 1

	At         *time.Time `json:"at,omitempty"`
	TokenID    string     `json:"token,omitempty"`
	TeamID     string     `json:"team,omitempty"`
	Operation  string     `json:"op,omitempty"`
	Allowed    bool       `json:"allowed,omitempty"`
	Denied     string     `json:"denied,omitempty"`
	RetryAfter int64      `json:"retry_after_ns,omitempty"`
	Local      bool       `json:"local,omitempty"`
	Cached     bool       `json:"cached,omitempty"`
	RefundOf   *time.Time `json:"refund_of,omitempty"`
	Reset      bool       `json:"reset,omitempty"`

	Policy int           `json:"policy,omitempty"` // number of the policy of a request, or of the policy with these limits
	Limits *[]limitEntry `json:"limits,omitempty"`

	Gateways *gatewaysEntry `json:"gateways,omitempty"`
	Started  *boundary      `json:"started,omitempty"`
	Ended    *boundary      `json:"ended,omitempty"`

	Dropped uint64     `json:"dropped,omitempty"`
	From    *time.Time `json:"from,omitempty"` // of the dropped events
	To      *time.Time `json:"to,omitempty"`
}

// A limitEntry is a limit of a policy.
type limitEntry struct {
	Name     string        `json:"name"`
	Requests int           `json:"requests"`
	Per      time.Duration `json:"per_ns"`
	Shadow   bool          `json:"shadow,omitempty"`
}

// format is the version of the format of the lines.
const format = 1

// headerStart is the beginning of every file of a record.
const headerStart = `{"opsgate_demand":1`

func appendHeader(b []byte, sample float64) []byte {
	return appendLine(b, &line{Format: format, Sample: sample})
}

func appendDropped(b []byte, n uint64, in span) []byte {
	return appendLine(b, &line{Dropped: n, From: utc(in.from), To: utc(in.to)})
}

// appendPolicy appends the line of a policy. Requests that follow have its number instead of its limits.
func appendPolicy(b []byte, number int, p *ratelimit.Policy) []byte {
	limits := make([]limitEntry, len(p.Limits()))
	for i, l := range p.Limits() {
		limits[i] = limitEntry(l)
	}
	return appendLine(b, &line{Policy: number, Limits: &limits})
}

// appendEvent appends the line of an event. policy is the number of its policy; 0 for none.
func appendEvent(b []byte, e *Event, policy int) []byte {
	l := line{
		At: utc(e.At), TokenID: e.TokenID, TeamID: e.TeamID, Operation: e.Operation, Allowed: e.Allowed, Denied: e.Denied,
		RetryAfter: int64(e.RetryAfter), Local: e.Local, Cached: e.Cached, Reset: e.Reset, Policy: policy,
	}
	if !e.RefundOf.IsZero() {
		l.RefundOf = utc(e.RefundOf)
	}
	return appendLine(b, &l)
}

// appendLine appends a line of the record.
func appendLine(b []byte, l *line) []byte {
	text, _ := json.Marshal(l) //nolint:errchkjson // strings, numbers and times never fail
	return append(append(b, text...), '\n')
}

func utc(t time.Time) *time.Time { return new(t.UTC()) }
