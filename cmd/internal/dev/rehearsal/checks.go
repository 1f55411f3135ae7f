package rehearsal

import (
	"fmt"
	"net/http"
	"time"
)

const (
	enoughTries   = 4                // after which a client may give up
	longWait      = 30 * time.Second // a client need not wait longer, but may give up
	rewriteWithin = 5 * time.Second  // of a replay: the same write is then a repeat of it
)

// waits checks that the client waits as long as answers tell it.
func waits(r *run) (o outcome) {
	for i, e := range r.tries {
		if e.wait() == 0 {
			continue
		}
		early, obeyed := r.firstAfter(i)
		if early != nil {
			o.fail(early, fmt.Sprintf("sent %s after a %d with retry-after: %d",
				milliseconds(early.Arrived.Sub(e.Answered)), e.Status, int(e.wait().Seconds())))
		}
		if early != nil || obeyed {
			o.cases++
		}
	}
	return o
}

// firstAfter looks for the next request of the client after an answer: early is a request that came too early, and obeyed is whether one
// came in time. Processes may share a token and nothing else. So another request after a 429 is too early only of a client that sends one
// request at a time, and does not repeat the denied one in time. If reads are sent in parallel, so is one that looks like an early repeat.
func (r *run) firstAfter(index int) (early *try, obeyed bool) {
	e := r.tries[index]
	limited, parallel := e.Status == http.StatusTooManyRequests, r.parallel[e.Token]
	for _, f := range r.tries[index+1:] {
		switch {
		case f.Token != e.Token || f.Arrived.Before(e.Answered):
		case !f.Arrived.Before(e.due()):
			if f.repeats(e.Entry) || limited && early == nil {
				return nil, true
			}
		case f.same(e.Entry) && !(parallel && e.Method == http.MethodGet):
			return f, false
		case early == nil && (f.same(e.Entry) || limited && !parallel):
			early = f
		}
	}
	return early, false
}

// repeats checks that the client sends failed requests again.
func repeats(r *run) (o outcome) {
	for i, e := range r.tries {
		if !e.failed() || e.Abandoned || e.isLate {
			continue
		}
		switch again := first(r.tries[i+1:], func(f *try) bool { return f.repeats(e.Entry) }); {
		case again != nil:
			o.cases++
		case e.number < enoughTries && e.RetryAfter <= longWait && !(r.parallel[e.Token] && e.failures >= enoughTries):
			o.cases++
			o.fail(e, "not sent again after "+e.outcome())
		}
	}
	return o
}

// sameKey checks the keys of writes that were executed or failed.
func sameKey(r *run) (o outcome) {
	for i, e := range r.tries {
		if e.Method != http.MethodPost || !e.failed() && (e.Status != http.StatusOK || e.Key != "") {
			continue
		}
		wrong, later := "", r.tries[i+1:]
		repeat := first(later, func(f *try) bool { return f.same(e.Entry) })
		if repeat == nil {
			repeat = first(later, func(f *try) bool { return f.repeats(e.Entry) })
		}
		switch {
		case e.Key == "":
			wrong = "a write without an Idempotency-Key, and " + e.outcome()
		case repeat == nil:
			continue
		case repeat.Key != e.Key:
			wrong = "sent again with another Idempotency-Key after " + e.outcome()
		case repeat.Body != e.Body:
			wrong = "sent again with the same Idempotency-Key and another body after " + e.outcome()
		}
		o.cases++
		if wrong != "" {
			o.fail(e, wrong)
		}
	}
	return o
}

// replays checks that the client does not write again what a replay confirmed. A client that writes alike after other answers too does so
// on purpose.
func replays(r *run) (o outcome) {
	onPurpose := false
	for i, e := range r.tries {
		if e.Method != http.MethodPost || e.Status != http.StatusOK {
			continue
		}
		again := first(r.tries[i+1:], func(f *try) bool { return f.repeats(e.Entry) && f.Body == e.Body && f.Key != e.Key })
		if !e.Replayed {
			onPurpose = onPurpose || again != nil
			continue
		}
		o.cases++
		if again != nil && again.Arrived.Sub(e.Answered) < rewriteWithin {
			o.fail(again, "the same write with another Idempotency-Key, after an answer with idempotent-replayed: true")
		}
	}
	if onPurpose {
		o.cases, o.findings = o.cases-len(o.findings), nil
	}
	return o
}

// patience checks that the client waits for slow answers.
func patience(r *run) (o outcome) {
	for _, e := range r.tries {
		if e.Fault != Slow {
			continue
		}
		o.cases++
		if e.Abandoned {
			o.fail(e, "the client closed the connection after "+milliseconds(e.Answered.Sub(e.Arrived)))
		}
	}
	return o
}

// continues returns a check that the client sends another request after an answer with this change. An answer after which there may be
// nothing left to request is no case: only a page that is not the last proves that the client stopped too early.
func continues(change Fault) check {
	return func(r *run) (o outcome) {
		for i, e := range r.tries {
			if e.Fault != change || e.isLate || !r.goesOn(i) && !e.More {
				continue
			}
			o.cases++
			if !r.goesOn(i) {
				o.fail(e, "no other request followed an answer with a "+string(change)+", and its list has more pages")
			}
		}
		return o
	}
}

// goesOn reports whether another request follows, or the same again of a client that also repeats it after an answer without a change.
func (r *run) goesOn(index int) bool {
	e := r.tries[index]
	again, polls, succeeded := false, false, false
	for i, f := range r.tries {
		switch {
		case f.same(e.Entry):
			again, polls = again || i > index, polls || succeeded
			succeeded = f.Status == http.StatusOK && f.Fault != e.Fault
		case i > index:
			return true
		}
	}
	return again && polls
}

// parameters checks that the operations know the query parameters that the client sends.
func parameters(r *run) (o outcome) {
	for _, e := range r.tries {
		if e.Status != http.StatusOK || e.Query == "" && e.Page == "" {
			continue
		}
		o.cases++
		if e.Ignored != "" {
			o.fail(e, "the operation ignores parameters: "+e.Ignored)
		}
	}
	return o
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
