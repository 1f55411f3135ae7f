package rehearsal

import (
	"fmt"
	"net/http"
	"time"
)

const (
	maxTries = 8
	// minPause is the shortest pause before the second repeat and later ones. The first may follow at once, as in many libraries.
	minPause = 100 * time.Millisecond
	// maxRefused is how often in a row the same request may be sent that is refused for good, unless it is a poll.
	maxRefused    = 2
	refusedWithin = 10 * time.Second
)

// pauses checks how often and how fast the client repeats a request.
func pauses(r *run) (o outcome) {
	for _, e := range r.tries {
		if e.before == nil || r.parallel[e.Token] && e.Method == http.MethodGet {
			continue
		}
		pause := e.Arrived.Sub(e.before.Answered)
		switch {
		case e.number == maxTries+1:
			o.cases++
			o.fail(e, fmt.Sprintf("try %d of the same request", e.number))
		case e.number >= 3 && e.before.wait() == 0 && !e.byLibrary && (pause < minPause || e.before.Exhausted == 0): // else it may have paced
			o.cases++
			if pause < minPause {
				o.fail(e, fmt.Sprintf("try %d followed after %s; expected at least %s", e.number, milliseconds(pause), milliseconds(minPause)))
			}
		}
	}
	o.refused(r.tries)
	return o
}

// refused adds the requests that were sent again and again although they were refused for good.
func (o *outcome) refused(tries []*try) {
	inRow := make(map[string][]*try) // by token
	for _, e := range tries {
		row := inRow[e.Token]
		isRefused := e.Status >= http.StatusBadRequest && e.Status < http.StatusInternalServerError && !e.failed()
		if !isRefused || len(row) > 0 && (!e.same(row[0].Entry) || e.Arrived.Sub(row[0].Arrived) > refusedWithin) {
			row = nil
		}
		if isRefused {
			row = append(row, e)
		}
		inRow[e.Token] = row
		if len(row) == maxRefused+1 && isRefused {
			o.cases++
			o.fail(e, fmt.Sprintf("the same request %d times in a row, each with status %d", len(row), e.Status))
		}
	}
}

// pacing checks that the client does not run into limits that the answers before have announced, or waits more often than that. Requests in
// parallel do not fail it: each is sent without the answers of the others.
func pacing(r *run) (o outcome) {
	waited := 0
	for i, e := range r.tries {
		if e.Exhausted == 0 || e.Status != http.StatusOK || e.Fault == Slow { // a slow answer is out of date
			continue
		}
		f := first(r.tries[i+1:], func(f *try) bool { return f.Token == e.Token && !f.Arrived.Before(e.Answered) })
		switch {
		case f == nil:
			continue
		case f.Arrived.Sub(e.Answered) >= e.Exhausted-timerSlack:
			waited++
		case f.Status == http.StatusTooManyRequests && f.Fault == "":
			if r.parallel[e.Token] {
				continue
			}
			o.fail(f, fmt.Sprintf("refused with a 429, %s after an answer with r=0;t=%d in ratelimit",
				milliseconds(f.Arrived.Sub(e.Answered)), int(e.Exhausted.Seconds())))
		}
		o.cases++
	}
	if len(o.findings) <= waited {
		o.findings = nil
	}
	return o
}
