package command

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Header names.
const (
	headerIdempotencyKey = "Idempotency-Key"
	headerRequestID      = "X-Request-Id"
	headerForwardedFor   = "X-Forwarded-For"
)

// maxAnswer bounds the size of an answer.
const maxAnswer = 64 << 20

// Pauses before a request is repeated that the API gave no time for: doubled each time, and
// multiplied by a random factor from 0.5 to 1.5.
const (
	firstPause = 250 * time.Millisecond
	maxPause   = 8 * time.Second
)

// transport sends requests and repeats them. It implements apiclient.HttpRequestDoer.
type transport struct {
	client  *http.Client
	token   string
	agent   string
	caller  string // X-Forwarded-For; "" without it
	maxWait time.Duration
	program *program
	pacer   *pacer
}

// Do sends a request with the token, and a write with an idempotency key. The body of the response
// is in memory. Any status but 2xx is an error, a *problem. Do repeats the request if that can
// help, until maxWait has passed since the first attempt; a wait for limits before it does not
// count.
func (t *transport) Do(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+t.token)
	r.Header.Set("User-Agent", t.agent)
	if t.caller != "" {
		r.Header.Set(headerForwardedFor, t.caller)
	}
	if !isRead(r.Method) && r.Header.Get(headerIdempotencyKey) == "" {
		r.Header.Set(headerIdempotencyKey, uuid.NewString())
	}
	var started time.Time
	pause := firstPause
	var wait, waited time.Duration // before the next attempt, and before all of them
	for {
		if t.pace(r.Context(), wait) != nil {
			return nil, t.final(r, &problem{Code: codeInterrupted, Text: "interrupted while waiting"})
		}
		if started.IsZero() {
			started = t.program.Clock()
		}
		response, failure := t.try(r)
		if failure == nil {
			t.noteHeaders(response.Header)
			return response, nil
		}
		wait = time.Duration(failure.RetryAfter) * time.Second
		if wait == 0 {
			wait = time.Duration(float64(pause) * (0.5 + rand.Float64()))
			pause = min(2*pause, maxPause)
		}
		failure.waited = waited
		if !failure.repeats || t.program.Clock().Sub(started)+wait > t.maxWait {
			return nil, t.final(r, failure)
		}
		t.program.note(note{
			Text: fmt.Sprintf("%v; repeating it in %v", failure, wait.Round(time.Millisecond)),
			Wait: int((wait + time.Second - 1) / time.Second),
		})
		waited += wait
	}
}

func isRead(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// noteHeaders notes that the operation is going to be removed (RFC 9745, RFC 8594), and parameters
// that had no effect.
func (t *transport) noteHeaders(h http.Header) {
	if h.Get("Deprecation") != "" {
		t.program.note(note{Text: fmt.Sprintf("this operation of the API is deprecated; it may be removed after: %q",
			h.Get("Sunset"))})
	}
	if names := h.Get("Ignored-Parameters"); names != "" {
		names = strings.ReplaceAll(names, t.token, "[token]")
		t.program.note(note{Text: "the operation does not have these parameters, and ignored them: " + names})
	}
}

// final completes a problem for the user: a write without a final answer may have been executed.
func (t *transport) final(r *http.Request, p *problem) *problem {
	p.asJSON = t.program.Output == asJSON
	if !isRead(r.Method) && (p.Status == 0 || p.Status >= 500 || p.Status == http.StatusConflict) {
		p.Key = r.Header.Get(headerIdempotencyKey)
	}
	return p
}

// try sends a request once, which the pacer has admitted.
func (t *transport) try(r *http.Request) (*http.Response, *problem) {
	var response *http.Response
	defer func() { t.pacer.done(response, t.program.Clock()) }()
	ctx, cancel := context.WithTimeout(r.Context(), t.program.Timeout)
	defer cancel()
	attempt := r.Clone(ctx)
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, &problem{Code: codeNoConnection, Text: err.Error()}
		}
		attempt.Body = body
	}
	var err error
	if response, err = t.client.Do(attempt); err != nil {
		return nil, t.lost(r.Context(), err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, t.lost(r.Context(), fmt.Errorf("the answer was cut off: %w", err))
	}
	if len(body) > maxAnswer {
		return nil, &problem{Code: codeUnexpected, Text: fmt.Sprintf("the answer is larger than %d MiB", maxAnswer>>20)}
	}
	body = bytes.ReplaceAll(body, []byte(t.token), []byte("[token]")) // a server that echoes requests must not reveal it
	response.Body = io.NopCloser(bytes.NewReader(body))
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	return nil, t.refusal(response, body)
}

// lost returns the problem of a request without a complete answer.
func (t *transport) lost(ctx context.Context, err error) *problem {
	if ctx.Err() != nil {
		return &problem{Code: codeInterrupted, Text: "interrupted"}
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the URL, which is known
	}
	p := &problem{Code: codeNoConnection, Text: strings.ReplaceAll(err.Error(), t.token, "[token]"), repeats: true}
	if errors.Is(err, context.DeadlineExceeded) {
		p.Text = fmt.Sprintf("no complete answer within %v", t.program.Timeout)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		p.repeats = false
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		p.repeats = false
	}
	return p
}

// refusal returns the problem that an answer describes.
func (t *transport) refusal(response *http.Response, body []byte) *problem {
	p := &problem{
		Status:    response.StatusCode,
		RequestID: strings.ReplaceAll(response.Header.Get(headerRequestID), t.token, "[token]"),
	}
	if p.Status/100 == 3 {
		p.Code, p.Text = codeRedirected,
			"the server redirects elsewhere, which opsctl does not follow: is this the URL of the API?"
		return p
	}
	var answer struct {
		Error, Code string
		Details     map[string]any
	}
	if json.Unmarshal(body, &answer) != nil || answer.Code == "" { // of a proxy, or to malformed HTTP
		answer.Code, answer.Error = codeUnexpected, http.StatusText(response.StatusCode)+", not from the API"
	}
	p.Text, p.Code, p.Details, p.RetryAfter = answer.Error, answer.Code, answer.Details,
		retryAfter(response.Header, t.program.Clock())
	switch p.Status {
	case http.StatusTooManyRequests:
		p.RetryAfter, p.repeats = max(p.RetryAfter, 1), true
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		p.repeats = true
	}
	return p
}

// retryAfter returns the seconds of Retry-After, which may also be a date; 0 for none.
func retryAfter(h http.Header, now time.Time) int {
	text := h.Get("Retry-After")
	// then it is the largest
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil || errors.Is(err, strconv.ErrRange) {
		return int(max(seconds, 0))
	}
	if date, err := http.ParseTime(text); err == nil {
		return int(math.Ceil(max(date.Sub(now), 0).Seconds()))
	}
	return 0
}
