//go:build generated

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"opsgate/tools/clients/go/ops"
)

const (
	attempts       = 6
	attemptTimeout = 5 * time.Second
	firstBackoff   = 250 * time.Millisecond
)

// temporary lists the statuses after which the same request may succeed.
var temporary = []int{
	http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests,
	http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// A retrier sends the requests of the generated client. It repeats a request after a temporary status, a cut response or a timeout if it is
// a read or has an Idempotency-Key. It waits for Retry-After, or else twice as long after each attempt.
type retrier struct{ http http.Client }

// A refusal is a response other than 2xx.
type refusal struct {
	status int
	text   ops.Error
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%d %s: %s", r.status, r.text.Code, r.text.Error)
}

// Do implements ops.HttpRequestDoer. It returns the whole response, or a *refusal.
func (r *retrier) Do(req *http.Request) (*http.Response, error) {
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
			err = newRefusal(res, body)
			repeatable = repeatable && slices.Contains(temporary, res.StatusCode)
			if seconds, notANumber := strconv.Atoi(res.Header.Get("Retry-After")); notANumber == nil {
				wait = time.Duration(seconds) * time.Second
			}
		}
		if !repeatable || attempt == attempts {
			return nil, err
		}
		backoff *= 2
		select {
		case <-time.After(wait):
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
}

// once sends the request and reads the whole response, so that a cut response is an error here, where it is repeated.
func (r *retrier) once(req *http.Request) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(req.Context(), attemptTimeout)
	defer cancel()
	attempt := req.Clone(ctx)
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, nil, fmt.Errorf("repeat the body: %w", err)
		}
		attempt.Body = body
	}
	res, err := r.http.Do(attempt)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return res, body, err
}

func newRefusal(res *http.Response, body []byte) *refusal {
	r := &refusal{status: res.StatusCode}
	if err := json.Unmarshal(body, &r.text); err != nil {
		r.text.Error = string(body) // not from the API, but from a proxy before it
	}
	return r
}
