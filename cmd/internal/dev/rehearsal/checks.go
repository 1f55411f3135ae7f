package rehearsal

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// timerSlack is how much earlier than it should a timer of a client may fire.
	timerSlack = 20 * time.Millisecond
	// inFlight is how long after an answer a request may arrive that the client sent before it had read the answer.
	inFlight = 250 * time.Millisecond
)

// waits checks that the client waits as long as answers tell it.
func waits(entries []Entry) (cases int, findings []Finding) {
	waited := waited(entries)
	for i := range entries {
		e := &entries[i]
		if e.wait() == 0 {
			continue
		}
		early, obeyed := firstAfter(entries[i+1:], waited[i+1:], e)
		switch {
		case early != nil:
			cases++
			findings = append(findings, find(early, fmt.Sprintf("sent %s after a %d with retry-after: %d",
				milliseconds(early.Arrived.Sub(e.Answered)), e.Status, int(e.wait().Seconds()))))
		case obeyed:
			cases++
		}
	}
	return cases, findings
}

// firstAfter looks for the next request of the client after the answer of e: early is a request that came too early, and obeyed is whether
// one came in time. Requests that are denied together get different waits, so a request that obeyed a wait of its own is not too early.
func firstAfter(later []Entry, waited []bool, e *Entry) (early *Entry, obeyed bool) {
	due := e.Answered.Add(e.wait() - timerSlack)
	for i := range later {
		f := &later[i]
		switch {
		case f.Token != e.Token || f.Arrived.Before(e.Answered):
		case !f.Arrived.Before(due):
			return nil, true
		case f.same(e), e.Status == http.StatusTooManyRequests && f.Arrived.Sub(e.Answered) > inFlight && !waited[i]:
			return f, false
		}
	}
	return nil, false
}

// waited returns for each request whether it is a repeat that came after the wait of its last try.
func waited(entries []Entry) []bool {
	list := make([]bool, len(entries))
	last := make(map[string]*Entry)
	for i := range entries {
		e := &entries[i]
		if f := last[e.id()]; f != nil && f.wait() > 0 {
			list[i] = !e.Arrived.Before(f.Answered.Add(f.wait() - timerSlack))
		}
		last[e.id()] = e
	}
	return list
}

// repeats checks that the client sends failed requests again.
func repeats(entries []Entry) (cases int, findings []Finding) {
	for i := range entries {
		e := &entries[i]
		if !e.failed() || e.Abandoned {
			continue
		}
		cases++
		if !sentAgain(entries[i+1:], e) {
			findings = append(findings, find(e, "not sent again after "+e.outcome()))
		}
	}
	return cases, findings
}

func sentAgain(later []Entry, e *Entry) bool {
	for i := range later {
		if later[i].repeats(e) {
			return true
		}
	}
	return false
}

// sameKey checks the keys of writes that were executed or failed.
func sameKey(entries []Entry) (cases int, findings []Finding) {
	for i := range entries {
		e := &entries[i]
		if e.Method != http.MethodPost || !e.failed() && e.Status != http.StatusOK {
			continue
		}
		if e.Key == "" {
			cases++
			findings = append(findings, find(e, "a write without an Idempotency-Key, and "+e.outcome()))
			continue
		}
		if e.failed() {
			cases++
			if text := wrongRepeat(entries[i+1:], e); text != "" {
				findings = append(findings, find(e, text))
			}
		}
	}
	return cases, findings
}

// wrongRepeat returns what is wrong with the repeat of a write; "" if nothing is, or if there is no repeat.
func wrongRepeat(later []Entry, e *Entry) (text string) {
	for i := range later {
		f := &later[i]
		switch {
		case f.same(e):
			return ""
		case text != "" || !f.repeats(e):
		case f.Key != e.Key:
			text = "sent again with another Idempotency-Key after " + e.outcome()
		default:
			text = "sent again with the same Idempotency-Key and another body after " + e.outcome()
		}
	}
	return text
}

// replays checks that the client does not write again what a replay confirmed.
func replays(entries []Entry) (cases int, findings []Finding) {
	for i := range entries {
		e := &entries[i]
		if !e.Replayed || e.Status != http.StatusOK {
			continue
		}
		cases++
		for j := i + 1; j < len(entries); j++ {
			if f := &entries[j]; f.repeats(e) && f.Body == e.Body && f.Key != e.Key {
				findings = append(findings, find(f, "the same write with another Idempotency-Key, after an answer with idempotent-replayed: true"))
				break
			}
		}
	}
	return cases, findings
}

// patience checks that the client waits for slow answers.
func patience(entries []Entry) (cases int, findings []Finding) {
	for i := range entries {
		e := &entries[i]
		if e.Fault != Slow {
			continue
		}
		cases++
		if e.Abandoned {
			findings = append(findings, find(e, "the client closed the connection after "+milliseconds(e.Answered.Sub(e.Arrived))))
		}
	}
	return cases, findings
}

// continues returns a check that the client sends another request after an answer with this change.
func continues(change Fault) check {
	return func(entries []Entry) (cases int, findings []Finding) {
		var first *Entry
		continued := false
		for i := range entries {
			e := &entries[i]
			if first != nil && !e.same(first) {
				continued = true
			}
			if e.Fault == change {
				cases++
				if first == nil {
					first = e
				}
			}
		}
		if first != nil && !continued {
			findings = []Finding{find(first, "no other request followed an answer with a "+string(change))}
		}
		return cases, findings
	}
}

// outcome describes the answer for people.
func (e *Entry) outcome() string {
	switch {
	case e.Status == 0:
		return "its answer was cut"
	case e.Status == http.StatusOK:
		return "it was executed"
	}
	return fmt.Sprintf("status %d", e.Status)
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
