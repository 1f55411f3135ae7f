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

// pacer delays requests so that no rate limit denies them. It follows the headers of the last response, which count the requests of all
// clients with the token: another client can still take the last request. It is safe for concurrent use.
type pacer struct {
	mu        sync.Mutex
	notBefore time.Time
}

// observe reads the headers of a response (draft-ietf-httpapi-ratelimit-headers). The last tenth of a limit is spread over the time until
// more requests are allowed, so that a limit of an hour does not end in one long wait.
func (p *pacer) observe(h http.Header, now time.Time) {
	quotas, resets := numbers(h, "RateLimit-Policy", "q"), numbers(h, "RateLimit", "t")
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, remaining := range numbers(h, "RateLimit", "r") {
		at := now.Add(time.Duration(min(resets[name], math.MaxInt32)) * time.Second / time.Duration(remaining+1))
		if remaining <= quotas[name]/10 && at.After(p.notBefore) {
			p.notBefore = at
		}
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

// pace waits at least the given time, and until the rate limits allow a request, unless that is longer than maxWait: the API then answers
// for how long.
func (t *transport) pace(ctx context.Context, least time.Duration) error {
	p := &t.program.pacer
	p.mu.Lock()
	wait := p.notBefore.Sub(t.program.Clock())
	p.mu.Unlock()
	if wait <= least || wait > t.maxWait {
		wait = least
	} else if wait >= 5*time.Second {
		t.program.note(note{Text: fmt.Sprintf("waiting %v for the rate limit", wait.Round(time.Second)), Wait: int(math.Ceil(wait.Seconds()))})
	}
	if wait <= 0 {
		return nil
	}
	return t.program.Sleep(ctx, wait)
}
