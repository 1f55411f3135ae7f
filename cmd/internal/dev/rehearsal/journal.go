package rehearsal

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// A Fault is how an answer was disturbed; "" if it was not.
type Fault string

// Faults. The first four are failures, the others are changes.
const (
	RateLimited   Fault = "429"
	Unavailable   Fault = "503"
	CutBefore     Fault = "cut before the answer"
	CutInside     Fault = "cut inside the answer"
	NewField      Fault = "new field"
	NewValue      Fault = "new value"
	Slow          Fault = "slow"
	Replay        Fault = "replay"
	IgnoredCursor Fault = "ignored cursor"
)

// An Entry is one request and its answer, as the client saw it.
type Entry struct {
	Token     string // name; never the text
	Method    string
	Path      string
	Query     string // without the parameters that select a page
	Page      string // the parameters that select a page
	RequestID string
	Key       string // Idempotency-Key
	Body      string // hash of the body as a JSON value; "" for none
	Cursor    string
	Arrived   time.Time
	Answered  time.Time
	Status    int // 0 if the connection was cut
	// RetryAfter is how long the answer told the client to wait.
	RetryAfter time.Duration
	Fault      Fault
	Abandoned  bool // the client closed the connection before the answer
	Replayed   bool // the answer was marked as a replay
	More       bool // the answer is a page that is not the last of its list
	First      bool // the answer is the first page of its list
	Items      int  // of the page
	NextCursor string
	Ignored    string        // Ignored-Parameters: names of query parameters that the operation does not know
	Exhausted  time.Duration // how long RateLimit announced that a limit has no request remaining
}

// failed reports whether the client must repeat the request.
func (e *Entry) failed() bool {
	switch e.Status {
	case 0, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return true
	}
	return false
}

// wait returns how long the client had to wait before it repeated the request; 0 if the client did not get an answer that states it.
func (e *Entry) wait() time.Duration {
	if e.Status == 0 {
		return 0
	}
	return e.RetryAfter
}

// repeats reports whether e sends the logical request of f again, possibly with another key or body.
func (e *Entry) repeats(f *Entry) bool {
	if e.Token != f.Token || e.Method != f.Method || e.Path != f.Path {
		return false
	}
	if e.Method != http.MethodPost {
		return true // with another query: a walk may start over, and a time in the query may have moved
	}
	return e.Body == f.Body || e.Key != "" && e.Key == f.Key
}

// same reports whether e is the request f without any difference.
func (e *Entry) same(f *Entry) bool {
	return e.repeats(f) && e.Query == f.Query && e.Page == f.Page && e.Key == f.Key && e.Body == f.Body
}

// id identifies the logical request.
func (e *Entry) id() string {
	return strings.Join([]string{e.Token, e.Method, e.Path, e.Query, e.Page, e.Key}, " ")
}

// list identifies the list that a page belongs to.
func (e *Entry) list() string { return e.Path + "?" + e.Query }

// maxEntries bounds the memory of a journal.
const maxEntries = 10_000

// journal holds the first requests in the order of their answers.
type journal struct {
	entries   []Entry
	requests  int // including those that are not kept
	disturbed int
}

func (j *journal) add(e *Entry) {
	j.requests++
	if e.Fault != "" {
		j.disturbed++
	}
	if len(j.entries) < maxEntries {
		j.entries = append(j.entries, *e)
	}
}

// inOrder returns a copy of the entries in the order in which the requests arrived.
func (j *journal) inOrder() []Entry {
	entries := slices.Clone(j.entries)
	slices.SortStableFunc(entries, func(a, b Entry) int { return a.Arrived.Compare(b.Arrived) })
	return entries
}
