package rehearsal

import "time"

// lateEntries is how many requests at the end of a full journal prove nothing by what does not follow them.
const lateEntries = 1000

// timerSlack is how much earlier than it should a timer of a client may fire.
const timerSlack = 20 * time.Millisecond

// A Count is the number of items of a list that the client has read, as it reports it.
type Count struct {
	Path  string
	Items int
}

// A run is what the checks evaluate.
type run struct {
	tries  []*try // in the order in which they arrived
	counts []Count
	// parallel has the tokens with several requests at the same time. Whether a request repeats another one or is a request of another part
	// of the client is then known only of writes: each has a key of its own.
	parallel map[string]bool
}

// A try is a request and what it repeats.
type try struct {
	*Entry
	number    int
	failures  int  // of the same request until this one, of all parts of the client
	before    *try // the failed try that it repeats; nil for the first
	isLate    bool // what follows may not be in the journal, which is full
	byLibrary bool // maybe: HTTP libraries repeat a request at once if a connection that they have used before ends without an answer
}

func newRun(entries []Entry, counts []Count) *run {
	r := &run{counts: counts, parallel: make(map[string]bool)}
	last := make(map[string]*try)          // by logical request
	answered := make(map[string]time.Time) // by token
	failures := make(map[string]int)
	for i := range entries {
		e := &try{Entry: &entries[i], number: 1, isLate: len(entries) == maxEntries && i >= maxEntries-lateEntries}
		r.tries = append(r.tries, e)
		if e.failed() {
			failures[e.id()]++
			e.failures = failures[e.id()]
		}
		if e.Arrived.Before(answered[e.Token]) {
			r.parallel[e.Token] = true
		}
		if !e.Abandoned && e.Answered.After(answered[e.Token]) {
			answered[e.Token] = e.Answered
		}
		if f := last[e.id()]; f != nil && f.failed() {
			if e.Arrived.Before(f.Answered) {
				continue // not a repeat: the client sent both at the same time
			}
			e.number, e.before, e.byLibrary = f.number+1, f, f.Fault == CutBefore && e.Arrived.Sub(f.Answered) < minPause
			if e.byLibrary {
				e.number--
			}
		}
		last[e.id()] = e
	}
	return r
}

// due returns when a request may be repeated.
func (e *Entry) due() time.Time { return e.Answered.Add(e.wait() - timerSlack) }

// first returns the first of the tries that matches; nil for none.
func first(tries []*try, matches func(*try) bool) *try {
	for _, t := range tries {
		if matches(t) {
			return t
		}
	}
	return nil
}

// An outcome is the result of a check.
type outcome struct {
	cases    int
	findings []Finding
}

// fail adds a finding about a request.
func (o *outcome) fail(e *try, text string) {
	o.findings = append(o.findings, Finding{
		At: e.Arrived.UTC(), Method: e.Method, Path: e.Path, RequestID: e.RequestID, Token: e.Token, Text: text,
	})
}
