package gateway

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"opsgate/authn"
	"opsgate/gateway/decode"
	"opsgate/gateway/jsonw"
)

// A Problem is an error response (docs/integrate/contract.md, "Errors"). Its cause and error are
// logged and never sent.
type Problem struct {
	Status     int
	Code       string            // stable; clients branch on it
	Text       string            // may change between releases; all 5xx with a code have the same
	Details    map[string]string // always set for 403 and 422, else nil
	RetryAfter time.Duration     // 0 for no Retry-After
	Header     http.Header       // additional headers, for example Allow; may be nil
	Cause      Cause             // for logs, metrics and traces
	err        error             // for the log; may be nil
}

// Error returns the text for the log. It is never sent to a client.
func (p *Problem) Error() string {
	if p.err == nil {
		return p.Code + ": " + p.Text
	}
	return p.Code + ": " + p.err.Error()
}

// Unwrap returns the error behind the problem.
func (p *Problem) Unwrap() error { return p.err }

func (p *Problem) withCause(cause Cause) *Problem {
	p.Cause = cause
	return p
}

func (p *Problem) withError(err error) *Problem {
	p.err = err
	return p
}

func (p *Problem) encode(w *jsonw.Writer) {
	w.BeginObject()
	w.String("error", p.Text)
	w.String("code", p.Code)
	if p.Details != nil {
		w.Object("details")
		for _, name := range slices.Sorted(maps.Keys(p.Details)) {
			w.StringEscapedName(name, p.Details[name])
		}
		w.EndObject()
	}
	w.EndObject()
}

// Errors of problems that the gateway itself finds.
var (
	errNoUsableToken = errors.New("no usable token was sent")
	errNoRoute       = errors.New("no route has this path")
	errBadID         = errors.New("path id is not a UUID")
	errAtCapacity    = errors.New("the limit of requests in flight is reached")
)

// unauthorized is the response to a missing token, or to an invalid one if sent is true. The text
// is the same for tokens that are malformed, do not exist, have expired or are revoked.
func unauthorized(sent bool, err error) *Problem {
	text, challenge := "no API token was sent; send it in the header: Authorization: Bearer <token>", "Bearer"
	if sent {
		text, challenge = "the API token is not valid", `Bearer error="invalid_token"` // RFC 6750, section 3
	}
	return &Problem{
		Status: http.StatusUnauthorized, Code: "unauthorized", Text: text, err: err,
		Header: http.Header{"Www-Authenticate": {challenge}},
	}
}

func missingScope(scope authn.Scope) *Problem {
	challenge := `Bearer error="insufficient_scope", scope="` + string(scope) + `"` // RFC 6750, section 3
	return &Problem{
		Status: http.StatusForbidden, Code: "forbidden", Text: "this token lacks the scope " + string(scope),
		Details: map[string]string{"required": string(scope)}, Header: http.Header{"Www-Authenticate": {challenge}},
		Cause: causeScope,
	}
}

func missingPlan() *Problem {
	return &Problem{
		Status: http.StatusForbidden, Code: "forbidden",
		Text:    "the public API needs the AI plan, which this token's team does not have",
		Details: map[string]string{"requiredPlan": "ai"}, Cause: causePlan,
	}
}

func invalid(details map[string]string) *Problem {
	return &Problem{
		Status: http.StatusUnprocessableEntity, Code: "validation_error", Text: "the request has invalid fields",
		Details: details,
	}
}

func notFound(err error) *Problem {
	return &Problem{Status: http.StatusNotFound, Code: "not_found", Text: "no such resource", err: err}
}

// noRoute is the response to a path without a route. Its text differs from the text for a missing
// resource.
func noRoute(path string) *Problem {
	p := notFound(errNoRoute).withCause(causeRoute)
	p.Text = "no such path"
	switch {
	case strings.HasPrefix(path, "/v1/v1/"), strings.HasPrefix(path, "/v1//v1/"):
		p.Text += ": it has /v1 twice, so the base URL of the client must not end in /v1"
	case strings.HasPrefix(path, "//v1/"):
		p.Text += ": it has two slashes, so the base URL of the client must not end in a slash"
	}
	return p
}

func methodNotAllowed(allow string) *Problem {
	return &Problem{
		Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Text: "this path takes " + allow,
		Header: http.Header{"Allow": {allow}}, Cause: causeMethod,
	}
}

// conflict is the response if another request is in progress: one with the same Idempotency-Key if
// hasKey, else any other change.
func conflict(hasKey bool, retryAfter time.Duration, err error) *Problem {
	text := "another change is in progress; repeat the request in a moment"
	if hasKey {
		text = "a request with this Idempotency-Key is still being worked on; repeat it in a moment"
	}
	return &Problem{Status: http.StatusConflict, Code: "conflict", Text: text, err: err,
		RetryAfter: max(retryAfter, time.Second)}
}

// requestTimeout is the response to a request whose body did not arrive in time.
func requestTimeout(err error) *Problem {
	return &Problem{
		Status: http.StatusRequestTimeout, Code: "request_timeout", Cause: causeBodyTimeout, err: err,
		Text: "the request body did not arrive in time; nothing was executed, and the request can be sent again",
	}
}

func tooLarge(limit int64) *Problem {
	return &Problem{
		Status: http.StatusRequestEntityTooLarge, Code: "payload_too_large",
		Text: fmt.Sprintf("the request body is larger than %d bytes", limit), Cause: causeSize,
	}
}

func headersTooLarge(limit int64) *Problem {
	return &Problem{
		Status: http.StatusRequestHeaderFieldsTooLarge, Code: "headers_too_large",
		Text: fmt.Sprintf("the request's headers are larger than %d bytes", limit), Cause: causeHeader,
	}
}

func unsupportedMediaType() *Problem {
	return &Problem{
		Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type",
		Text:  "the request body must be application/json",
		Cause: causeMediaType,
	}
}

// unsupportedCoding is the response to a body with a Content-Encoding. The text repeats what the
// client sent only if it can be the name of a coding.
func unsupportedCoding(coding string) *Problem {
	text := "the request body must have no Content-Encoding"
	if decode.VisibleASCII(coding, maxCodingLen) {
		text += ": " + coding + " is not supported"
	}
	return &Problem{
		Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type", Text: text, Cause: causeMediaType,
		// RFC 9110, section 15.5.16: the coding is unsupported, not the type
		Header: http.Header{"Accept-Encoding": {"identity"}},
	}
}

// maxCodingLen is longer than the name of every registered content coding.
const maxCodingLen = 32

func rateLimited(text string, retryAfter time.Duration) *Problem {
	return &Problem{Status: http.StatusTooManyRequests, Code: "rate_limited", Text: text,
		RetryAfter: max(retryAfter, time.Second)}
}

// codeInternal is the code of a 500.
const codeInternal = "internal_error"

func internal(err error) *Problem {
	return &Problem{
		Status: http.StatusInternalServerError, Code: codeInternal, Text: "internal error", Cause: causeInternal, err: err,
	}
}

func notImplemented(err error) *Problem {
	return &Problem{Status: http.StatusNotImplemented, Code: "not_implemented",
		Text: "this operation is not available yet", err: err}
}

func unavailable(retryAfter time.Duration, err error) *Problem {
	return &Problem{
		Status: http.StatusServiceUnavailable, Code: "unavailable", Text: "the service is unavailable for the moment",
		err:        err,
		RetryAfter: max(retryAfter, time.Second),
	}
}

func timedOut(err error) *Problem {
	return &Problem{
		Status: http.StatusGatewayTimeout, Code: "timeout", Text: "the service did not answer in time", err: err,
	}
}

// statusClientClosed is the status of a request whose client disconnected before the response. It
// is in logs and metrics, and never sent.
const statusClientClosed = 499

func clientClosed(err error) *Problem {
	return &Problem{
		Status: statusClientClosed, Code: "client_closed_request", Text: "the client closed the connection",
		Cause: causeClientGone, err: err,
	}
}
