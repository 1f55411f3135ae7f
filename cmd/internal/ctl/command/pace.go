package command

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/dunglas/httpsfv"
)

// pacer delays the requests with a token so that no rate limit denies them. It follows the headers
// of responses, which count the requests of all clients with the token: another client can still
// take the last request. It is safe for concurrent use.
type pacer struct {
	mu        sync.Mutex
	notBefore time.Time
	inFlight  int64
	remaining int64         // least of the responses since no request was in flight
	free      int64         // requests that may start now; the first request is sent alone
	changed   chan struct{} // closed by the next response; nil if no request waits for it
}

// admit counts a request, which ends with done. If the request must wait, admit returns until when,
// or the channel that the next response closes. It ignores a limit that ends after latest: the API
// then returns a 429 with the time.
func (p *pacer) admit(now, earliest, latest time.Time) (until time.Time, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until = earliest; p.notBefore.After(until) && !p.notBefore.After(latest) {
		until = p.notBefore
	}
	switch {
	case until.After(now):
		return until, nil
	case p.inFlight == 0:
		p.remaining = math.MaxInt64
	case p.free <= 0:
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		return until, p.changed
	}
	p.inFlight++
	p.free--
	return now, nil
}

// done ends a request. The response is nil if there was none.
func (p *pacer) done(response *http.Response, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
	if response != nil {
		p.observe(response, now)
	}
	p.free = p.remaining - p.inFlight
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// observe reads the headers of a response (draft-ietf-httpapi-ratelimit-headers). The last tenth of
// a limit is spread over the time until more requests are allowed, so that a limit of an hour does
// not end in one long wait. A denial has its own time.
func (p *pacer) observe(response *http.Response, now time.Time) {
	h := response.Header
	if response.StatusCode == http.StatusTooManyRequests {
		p.limit(0, now.Add(time.Duration(retryAfter(h, now))*time.Second))
		return
	}
	quotas, resets := numbers(h, "RateLimit-Policy", "q"), numbers(h, "RateLimit", "t")
	for name, remaining := range numbers(h, "RateLimit", "r") {
		var until time.Time
		if remaining <= quotas[name]/10 {
			until = now.Add(time.Duration(min(resets[name], math.MaxInt32)) * time.Second / time.Duration(remaining+1))
		}
		p.limit(remaining, until)
	}
}

// limit stores how many requests remain of a limit, and until when no request may be sent.
func (p *pacer) limit(remaining int64, until time.Time) {
	p.remaining = min(p.remaining, remaining)
	if until.After(p.notBefore) {
		p.notBefore = until
	}
}

// numbers returns a parameter of each limit in a header, 0 or more, by the limit's name.
func numbers(h http.Header, header, key string) map[string]int64 {
	list, _ := httpsfv.UnmarshalList(h.Values(header)) // empty for a malformed header
	found := map[string]int64{}
	for _, member := range list {
		item, _ := member.(httpsfv.Item)
		if name, isText := item.Value.(string); isText {
			value, _ := item.Params.Get(key)
			number, _ := value.(int64)
			found[name] = max(number, 0)
		}
	}
	return found
}

// pace waits at least the given time, and until the rate limits and the requests in flight allow
// another request, but not longer than maxWait for a rate limit.
func (t *transport) pace(ctx context.Context, least time.Duration) error {
	begun := t.program.Clock()
	for {
		now := t.program.Clock()
		until, changed := t.pacer.admit(now, begun.Add(least), begun.Add(t.maxWait))
		wait := until.Sub(now)
		switch {
		case changed != nil:
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		case wait <= 0:
			return nil
		case wait >= 5*time.Second && wait > least:
			t.program.note(note{Text: fmt.Sprintf("waiting %v for the rate limit", wait.Round(time.Second)),
				Wait: int(math.Ceil(wait.Seconds()))})
		}
		if err := t.program.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}
