package rehearsal

import (
	"fmt"
	"net/http"
	"time"
)

const (
	maxTries = 6
	// minPause is the shortest pause before the second repeat and later ones. The first may follow at once, as in many libraries.
	minPause = 100 * time.Millisecond
	// maxRefused is how often in a row the same request may be sent that is refused for good.
	maxRefused = 2
)

// tries are the tries of a request that were sent one after the other.
type tries struct {
	last  *Entry
	count int
	pause time.Duration // before the last try
}

// pauses checks how often and how fast the client repeats a request.
func pauses(entries []Entry) (cases int, findings []Finding) {
	running := make(map[string]*tries)
	for i := range entries {
		e := &entries[i]
		t := running[e.id()]
		if t == nil || !t.last.failed() {
			running[e.id()] = &tries{last: e, count: 1}
			continue
		}
		if e.Arrived.Before(t.last.Answered) {
			continue // not a repeat: the client sent both at the same time
		}
		cases++
		if text := t.add(e); text != "" {
			findings = append(findings, find(e, text))
		}
	}
	again := refused(entries)
	return cases + len(again), append(findings, again...)
}

// add adds a repeat, and returns what is wrong with it.
func (t *tries) add(e *Entry) (wrong string) {
	pause := e.Arrived.Sub(t.last.Answered)
	if t.last.Fault == CutBefore && pause < minPause {
		// Not by the client: HTTP libraries repeat a request at once if a connection that they have used before ends without an answer.
		t.last = e
		return ""
	}
	t.count++
	switch {
	case t.count == maxTries+1:
		wrong = fmt.Sprintf("try %d of the same request", t.count)
	case t.count < 3 || t.last.wait() > 0:
	case pause < minPause:
		wrong = fmt.Sprintf("try %d followed after %s; expected at least %s", t.count, milliseconds(pause), milliseconds(minPause))
	case pause < t.pause/2:
		wrong = fmt.Sprintf("try %d followed after %s, and the try before after %s; expected a growing pause",
			t.count, milliseconds(pause), milliseconds(t.pause))
	}
	t.pause = 0
	if t.last.wait() == 0 {
		t.pause = pause
	}
	t.last = e
	return wrong
}

// refused returns findings of requests that were sent again and again although they were refused for good.
func refused(entries []Entry) (findings []Finding) {
	inRow := make(map[string]int)     // by token
	before := make(map[string]*Entry) // by token
	for i := range entries {
		e := &entries[i]
		last := before[e.Token]
		before[e.Token] = e
		if last == nil || !e.same(last) || e.Status < http.StatusBadRequest || e.Status >= http.StatusInternalServerError || e.failed() {
			inRow[e.Token] = 1
			continue
		}
		if inRow[e.Token]++; inRow[e.Token] == maxRefused+1 {
			findings = append(findings, find(e, fmt.Sprintf("the same request %d times in a row, each with status %d", maxRefused+1, e.Status)))
		}
	}
	return findings
}
