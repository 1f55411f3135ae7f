package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	attempts       = 8
	attemptTimeout = 30 * time.Second
	longestDenial  = 2 * time.Minute
	firstBackoff   = 250 * time.Millisecond
	longestYield   = 30 * time.Second
)

// temporary returns the statuses after which the same request may succeed.
func temporary() []int {
	return []int{
		http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}
}

// A Retrier sends requests with one token. It repeats a request after a temporary status, a cut
// response or a timeout if it is a read or has an Idempotency-Key. It waits for Retry-After, or
// else twice as long after each of 8 attempts, and before each attempt until the limits allow a
// request. A 429 with Retry-After costs no attempt. The zero value is ready; goroutines may share
// it.
type Retrier struct {
	HTTP    http.Client   // its Timeout is that of an attempt; 30 seconds if it is 0
	MaxWait time.Duration // a request that limits deny for longer in total fails; 2 minutes if it is 0
	pacer   pacer
}

// Do returns the whole response, or an [*Error] if it is not a 2xx.
func (r *Retrier) Do(req *http.Request) (*http.Response, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	repeatable := req.Method == http.MethodGet || req.Header.Get("Idempotency-Key") != ""
	var denied time.Duration
	for left := attempts; ; {
		res, body, err := r.once(req)
		if denied > 0 && res != nil && res.StatusCode != http.StatusTooManyRequests {
			r.pacer.giveWay(denied)
		}
		if err == nil && res.StatusCode < http.StatusMultipleChoices {
			res.Body = io.NopCloser(bytes.NewReader(body))
			return res, nil
		}
		backoff := firstBackoff << (attempts - left)
		wait := backoff/2 + rand.N(backoff)
		left--
		if err != nil {
			repeatable = repeatable && canPass(err)
		} else {
			refusal := newError(res, body)
			wait = cmp.Or(refusal.RetryAfter, wait)
			if refusal.Status == http.StatusTooManyRequests && refusal.RetryAfter > 0 {
				left++
				denied += refusal.RetryAfter
				wait += rand.N(time.Second) // not in step with others that share the token
			}
			repeatable = repeatable && slices.Contains(temporary(), res.StatusCode) &&
				max(denied, refusal.RetryAfter) <= r.maxWait()
			err = refusal
		}
		if !repeatable || left == 0 || req.Context().Err() != nil {
			return nil, err
		}
		if err := sleep(req.Context(), wait); err != nil {
			return nil, err
		}
	}
}

func (r *Retrier) maxWait() time.Duration { return cmp.Or(r.MaxWait, longestDenial) }

// canPass reports whether a request may succeed when it is repeated: not to an unknown host, or to
// one with an invalid certificate.
func canPass(err error) bool {
	var host *net.DNSError
	var certificate *tls.CertificateVerificationError
	return (!errors.As(err, &host) || !host.IsNotFound) && !errors.As(err, &certificate)
}

// check returns an error for a request that net/http refuses to send.
func check(req *http.Request) error {
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return errors.New("the URL of the request must begin with https://")
	}
	for _, values := range req.Header {
		if slices.ContainsFunc(values, func(value string) bool { return strings.ContainsFunc(value, unicode.IsControl) }) {
			return errors.New("a header of the request has a character that is not allowed")
		}
	}
	return nil
}

// once sends the request and reads the whole response, so that a cut response is an error here,
// where it is repeated.
func (r *Retrier) once(req *http.Request) (res *http.Response, body []byte, err error) {
	if err := r.pacer.admit(req.Context(), r.maxWait()); err != nil {
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
