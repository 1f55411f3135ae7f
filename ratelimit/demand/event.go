package demand

import (
	"encoding/json"
	"strconv"
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
	b = append(b, headerStart+`,"sample":`...)
	b = strconv.AppendFloat(b, sample, 'g', -1, 64)
	return append(b, "}\n"...)
}

func appendDropped(b []byte, n uint64, in span) []byte {
	b = append(b, `{"dropped":`...)
	b = strconv.AppendUint(b, n, 10)
	b = appendTime(append(b, `,"from":`...), in.from)
	b = appendTime(append(b, `,"to":`...), in.to)
	return append(b, "}\n"...)
}

// appendPolicy appends the line of a policy. Requests that follow have its number instead of its limits.
func appendPolicy(b []byte, number int, p *ratelimit.Policy) []byte {
	limits := make([]limitEntry, len(p.Limits()))
	for i, l := range p.Limits() {
		limits[i] = limitEntry(l)
	}
	return appendLine(b, &line{Policy: number, Limits: &limits})
}

// appendLine appends a line that is written rarely.
func appendLine(b []byte, l *line) []byte {
	text, _ := json.Marshal(l) //nolint:errchkjson // strings, numbers and times never fail
	return append(append(b, text...), '\n')
}

// appendEvent appends the line of an event. policy is the number of its policy; 0 for none.
func appendEvent(b []byte, e *Event, policy int) []byte {
	b = appendTime(append(b, `{"at":`...), e.At)
	b = appendText(append(b, `,"token":`...), e.TokenID)
	if e.TeamID != "" {
		b = appendText(append(b, `,"team":`...), e.TeamID)
	}
	if e.Operation != "" {
		b = appendText(append(b, `,"op":`...), e.Operation)
	}
	switch {
	case e.Reset:
		b = append(b, `,"reset":true`...)
	case !e.RefundOf.IsZero():
		b = appendTime(append(b, `,"refund_of":`...), e.RefundOf)
	case e.Allowed:
		b = append(b, `,"allowed":true`...)
	default:
		b = appendText(append(b, `,"denied":`...), e.Denied)
		if e.RetryAfter > 0 {
			b = strconv.AppendInt(append(b, `,"retry_after_ns":`...), int64(e.RetryAfter), 10)
		}
	}
	if e.Local {
		b = append(b, `,"local":true`...)
	}
	if e.Cached {
		b = append(b, `,"cached":true`...)
	}
	if policy != 0 {
		b = strconv.AppendInt(append(b, `,"policy":`...), int64(policy), 10)
	}
	return append(b, "}\n"...)
}

func appendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

// appendText appends a JSON string. Plain ASCII, as in nearly all ids and names, needs no escapes.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) //nolint:errchkjson // a string never fails
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
