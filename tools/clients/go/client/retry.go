package client

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"
)

const (
	attempts       = 8
	attemptTimeout = 30 * time.Second
	firstBackoff   = 250 * time.Millisecond
	longestWait    = time.Minute // a request that a limit denies for longer fails
)

// temporary returns the statuses after which the same request may succeed.
func temporary() []int {
	return []int{
		http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}
}

// A Retrier sends requests with one token. It repeats a request after a temporary status, a cut response or a timeout if it is a read or
// has an Idempotency-Key. It waits for Retry-After, or else twice as long after each attempt, and before each attempt until the limits
// allow a request. The zero value is ready; goroutines may share it.
type Retrier struct {
	HTTP  http.Client // its Timeout is that of an attempt; 30 seconds if it is 0
	pacer pacer
}

// Do returns the whole response, or an [*Error] if it is not a 2xx.
func (r *Retrier) Do(req *http.Request) (*http.Response, error) {
	repeatable := req.Method == http.MethodGet || req.Header.Get("Idempotency-Key") != ""
	backoff := firstBackoff
	for attempt := 1; ; attempt++ {
		res, body, err := r.once(req)
		if err == nil && res.StatusCode < http.StatusMultipleChoices {
			res.Body = io.NopCloser(bytes.NewReader(body))
			return res, nil
		}
		wait := backoff/2 + rand.N(backoff)
		if err == nil {
			refusal := newError(res, body)
			repeatable = repeatable && slices.Contains(temporary(), res.StatusCode) && refusal.RetryAfter <= longestWait
			if refusal.RetryAfter > 0 {
				wait = refusal.RetryAfter
			}
			err = refusal
		}
		if !repeatable || attempt == attempts || req.Context().Err() != nil {
			return nil, err
		}
		backoff *= 2
		if err := sleep(req.Context(), wait); err != nil {
			return nil, err
		}
	}
}

// once sends the request and reads the whole response, so that a cut response is an error here, where it is repeated.
func (r *Retrier) once(req *http.Request) (res *http.Response, body []byte, err error) {
	if err := r.pacer.admit(req.Context()); err != nil {
		return nil, nil, err
	}
	defer func() { r.pacer.done(res) }()
	ctx, cancel := context.WithTimeout(req.Context(), cmp.Or(r.HTTP.Timeout, attemptTimeout))
	defer cancel()
	attempt := req.Clone(ctx)
	if req.GetBody != nil {
		if attempt.Body, err = req.GetBody(); err != nil {
			return nil, nil, fmt.Errorf("repeat the body: %w", err)
		}
	}
	if res, err = r.HTTP.Do(attempt); err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err = io.ReadAll(res.Body)
	return res, body, err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// retryAfter returns the header's time, which may be a date; 0 for none.
func retryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	seconds, _ := strconv.ParseUint(text, 10, 31) // 0 if malformed, and the maximum if it is larger
	return time.Duration(seconds) * time.Second
}
