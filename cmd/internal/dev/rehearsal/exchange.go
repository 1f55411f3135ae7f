package rehearsal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// An exchange is a request and its answer.
type exchange struct {
	h       *Rehearsal
	w       http.ResponseWriter
	r       *http.Request
	caller  *caller // nil if the gateway has not accepted the token yet
	request request
	plan    *plan
	failure Fault // of this try
	entry   *Entry
}

// serve answers the request: without the gateway if the request fails before it would be executed, else with the gateway's answer, which is
// disturbed only if it is a success.
func (x *exchange) serve(next http.Handler) {
	if x.failure == RateLimited || x.failure == Unavailable {
		x.refuse()
		return
	}
	if x.plan.change == IgnoredCursor {
		x.loseCursor()
	}
	x.r.Header.Del("Accept-Encoding") // the answer has to be read
	answer := &recorder{ResponseWriter: x.w, header: make(http.Header)}
	next.ServeHTTP(answer, x.r)
	x.record(answer)
	switch {
	case !answer.succeeded():
		x.keepFailure()
	case x.failure != "":
		x.cut(answer)
	default:
		x.change(answer)
	}
	x.h.answered(x, answer.limits())
	answer.send()
}

// record writes into the entry what the gateway answered.
func (x *exchange) record(a *recorder) {
	e := x.entry
	e.Status, e.RequestID, e.RetryAfter = a.status, a.header.Get("X-Request-Id"), retryAfter(a.header)
	e.Replayed = a.header.Get("Idempotent-Replayed") != ""
	e.Ignored, e.Exhausted = clip(a.header.Get("Ignored-Parameters")), exhausted(a.header.Get("RateLimit"))
	e.First = e.Cursor == "" || a.header.Get("Cursor-Status") == "ignored"
	var page struct {
		Items                 []json.RawMessage
		NextCursor            string // "" for null
		Total, Page, PageSize int
	}
	if a.succeeded() && json.Unmarshal(a.body, &page) == nil {
		e.More = page.NextCursor != "" || page.Page*page.PageSize < page.Total
		e.Items, e.NextCursor = len(page.Items), clip(page.NextCursor)
	}
	e.Abandoned = x.r.Context().Err() != nil
}

// keepFailure leaves the failure for the next try: the gateway itself refused this one.
func (x *exchange) keepFailure() {
	if x.failure == "" {
		return
	}
	x.h.mu.Lock()
	defer x.h.mu.Unlock()
	x.plan.failures = append([]Fault{x.failure}, x.plan.failures...)
}

// refuse sends a 429 or 503 as the gateway does for a limit or an outage of the service behind it.
func (x *exchange) refuse() {
	text, code, status := "the service is unavailable for the moment", "unavailable", http.StatusServiceUnavailable
	if x.failure == RateLimited {
		text, code, status = "the service takes no more requests for the moment", "rate_limited", http.StatusTooManyRequests
	}
	e := x.entry
	e.Status, e.Fault, e.RequestID = status, x.failure, requestID(x.r)
	e.RetryAfter = time.Duration(x.plan.retryAfter) * time.Second
	header := x.h.limits(x.caller)
	for name, value := range map[string]string{
		"Content-Type": "application/json; charset=utf-8", "Retry-After": strconv.Itoa(x.plan.retryAfter), "X-Request-Id": e.RequestID,
		"Cache-Control": "private, no-cache", "X-Content-Type-Options": "nosniff",
		"Link": "</docs/errors/#" + code + `>; rel="help"`,
	} {
		header.Set(name, value)
	}
	x.h.answered(x, nil)
	(&recorder{ResponseWriter: x.w, header: header, status: status, body: fmt.Appendf(nil, `{"error":%q,"code":%q}`, text, code)}).send()
}

// requestID returns the client's request id if it can be one, else a new one. It is stricter than the gateway: only letters, digits and
// hyphens, because it must not repeat a token.
func requestID(r *http.Request) string {
	sent := r.Header.Get("X-Request-Id")
	unusual := strings.TrimFunc(sent, func(c rune) bool { return c == '-' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' })
	if sent == "" || len(sent) > 128 || unusual != "" {
		return uuid.Must(uuid.NewV7()).String()
	}
	return sent
}

// loseCursor makes the cursor one that the gateway does not know, so that the gateway itself returns the first page.
func (x *exchange) loseCursor() {
	query := x.r.URL.Query()
	query.Set("cursor", "lost-in-rehearsal")
	x.r.URL.RawQuery = query.Encode()
}

// cut makes the answer one that does not arrive.
func (x *exchange) cut(a *recorder) {
	x.entry.Status, x.entry.Fault, x.entry.More = 0, x.failure, false
	a.cut, a.cutInside = true, x.failure == CutInside
}

// change changes the answer as planned. A change that does not apply to this answer is dropped.
func (x *exchange) change(a *recorder) {
	e, change := x.entry, x.plan.change
	if e.More && x.caller != nil && change != IgnoredCursor {
		x.h.mu.Lock()
		change = x.caller.schedule.onPage(change, len(openSets(e.Path)) > 0)
		x.h.mu.Unlock()
	}
	switch change {
	case NewField:
		if !a.replace(addFields(a.body)) {
			return
		}
	case NewValue:
		if !a.replace(addValues(a.body, openSets(e.Path))) {
			return
		}
	case Replay:
		if e.Replayed {
			return
		}
		// As if a proxy had repeated the request.
		a.header.Set("Idempotent-Replayed", "true")
		e.Replayed = true
	case IgnoredCursor:
		if a.header.Get("Cursor-Status") != "ignored" {
			return
		}
	case Slow:
		e.Abandoned = !x.delay()
	case "":
		return
	}
	e.Fault = change
}

// delay waits, and returns false if the client closes the connection before.
func (x *exchange) delay() bool {
	timer := time.NewTimer(x.plan.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.r.Context().Done():
		return false
	}
}

// recorder holds the answer of the gateway until it is sent.
type recorder struct {
	http.ResponseWriter // of the client

	header         http.Header
	status         int
	body           []byte
	cut, cutInside bool // the answer is cut, and a part of it is sent before
}

// Header implements [http.ResponseWriter].
func (a *recorder) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *recorder) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements [http.ResponseWriter].
func (a *recorder) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.body = append(a.body, p...)
	return len(p), nil
}

// FlushError does nothing: send sends the answer when it is complete, and perhaps changed.
func (a *recorder) FlushError() error { return nil }

// Unwrap returns the client's writer for [http.ResponseController].
func (a *recorder) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *recorder) succeeded() bool { return a.status == http.StatusOK }

// limits returns the RateLimit headers; nil if the answer has none, as it has without a valid token.
func (a *recorder) limits() http.Header {
	limits := make(http.Header)
	for _, name := range []string{"Ratelimit", "Ratelimit-Policy"} {
		if value := a.header.Get(name); value != "" {
			limits.Set(name, value)
		}
	}
	if len(limits) == 0 {
		return nil
	}
	return limits
}

// replace replaces the body, and returns false if it is the same. Another body has another entity tag.
func (a *recorder) replace(body []byte) bool {
	if bytes.Equal(body, a.body) {
		return false
	}
	a.body = body
	if a.header.Get("Etag") != "" {
		a.header.Set("Etag", fmt.Sprintf("%q", hash(body)))
	}
	return true
}

// send sends the answer to the client. It panics with http.ErrAbortHandler to cut the connection.
func (a *recorder) send() {
	if a.status == 0 {
		return // the gateway answers nothing to a client that has disconnected
	}
	if a.cut && !a.cutInside {
		panic(http.ErrAbortHandler)
	}
	header := a.ResponseWriter.Header()
	maps.Copy(header, a.header)
	if a.status != http.StatusNotModified && a.header.Get("Content-Length") == "" || len(a.body) > 0 {
		header.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	a.ResponseWriter.WriteHeader(a.status)
	if !a.cut {
		_, _ = a.ResponseWriter.Write(a.body) // fails only if the client has disconnected
		return
	}
	_, _ = a.ResponseWriter.Write(a.body[:len(a.body)/2])
	_ = http.NewResponseController(a.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}
