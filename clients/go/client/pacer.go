package client

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// A pacer delays requests so that none exceeds a limit, by the RateLimit header of each response.
type pacer struct {
	mu        sync.Mutex
	inFlight  int
	free      int // requests that may be sent beside those in flight; the first request is sent alone
	remaining int // least of the responses since no request was in flight
	notBefore time.Time
	changed   chan struct{} // closed by the next response
}

// admit returns when a request may be sent. The caller then calls done. Waits longer than maxWait
// are left to the API, which returns a 429.
func (p *pacer) admit(ctx context.Context, maxWait time.Duration) error {
	for {
		wait, changed := p.try(maxWait)
		if changed == nil {
			return nil
		}
		select {
		case <-changed:
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// try admits a request, or returns when to try again: after a time, or a response.
func (p *pacer) try(maxWait time.Duration) (time.Duration, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := time.Until(p.notBefore)
	if wait <= 0 || wait > maxWait {
		if p.free > 0 || p.inFlight == 0 {
			if p.inFlight == 0 {
				p.remaining = math.MaxInt
			}
			p.inFlight++
			p.free--
			return 0, nil
		}
		wait = math.MaxInt64
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return wait, p.changed
}

var limits = regexp.MustCompile(`r=(\d+);t=(\d+)`)

// done ends a request. res is nil if there was no response.
func (p *pacer) done(res *http.Response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
	if res != nil {
		for _, limit := range limits.FindAllStringSubmatch(res.Header.Get("RateLimit"), -1) {
			remaining, _ := strconv.Atoi(limit[1]) // digits
			seconds, _ := strconv.ParseUint(limit[2], 10, 31)
			p.limit(remaining, time.Duration(seconds)*time.Second)
		}
		if res.StatusCode == http.StatusTooManyRequests {
			p.limit(0, retryAfter(res.Header))
		}
	}
	p.free = p.remaining - p.inFlight
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// giveWay delays the next request after one that was denied for some time: others share the token.
// Those who come when the limit has just room for them would keep the others out.
func (p *pacer) giveWay(denied time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := time.Now().Add(rand.N(min(2*denied, longestYield))); at.After(p.notBefore) {
		p.notBefore = at
	}
}

// limit stores how many requests remain of a limit, and after what time there will be more.
func (p *pacer) limit(remaining int, more time.Duration) {
	p.remaining = min(p.remaining, remaining)
	if at := time.Now().Add(more); remaining == 0 && at.After(p.notBefore) {
		p.notBefore = at
	}
}
