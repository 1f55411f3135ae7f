package backendclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What a service may hand over with an error. A service is trusted, but not to be without bugs, and violations end up in
// answers to clients.
const (
	maxViolations  = 100
	maxField       = 128
	maxDescription = 512
	maxReason      = 64
	maxMessage     = 1024
	minRetryAfter  = time.Second
	maxRetryAfter  = time.Hour
)

// A Violation is one thing wrong with a request (google.rpc.BadRequest).
type Violation struct {
	// Field as the service names it, such as "status_page_id".
	Field string
	// Description says what the field may be, in words for API clients.
	Description string
}

// An Error is a failed call.
type Error struct {
	// Service and Method are what was called: "fleet", "GetServer".
	Service, Method string
	// Code is what happened: the service's code, but Canceled whenever the caller had given up, and Internal where the
	// service's answer was larger than we take.
	Code codes.Code
	// ByCaller tells that the caller gave up; then Code is Canceled, and says nothing of the service.
	ByCaller bool
	// Violations are what the service found wrong with the request; at most 100.
	Violations []Violation
	// RetryAfter is how long the service asks to be left alone (google.rpc.RetryInfo), or how long we leave it alone, 1 s to
	// 1 h; 0 when nobody says.
	RetryAfter time.Duration
	// Reason is the google.rpc.ErrorInfo's, for programs and logs, or one of ours, such as [ReasonBreakerOpen]; "" when there
	// is none.
	Reason string

	status *status.Status // the service's, with the code put right
	cause  error
}

// A refusal is a call that we did not make.
type refusal struct {
	reason     string
	retryAfter time.Duration
	text       string
}

// Error implements error.
func (r *refusal) Error() string { return r.text }

// GRPCStatus makes the refusal Unavailable.
func (r *refusal) GRPCStatus() *status.Status { return status.New(codes.Unavailable, r.text) }

// newError says what became of a call that failed. Gone is how the caller's own context stands: nil while it waits.
func newError(gone error, c *call, err error) *Error {
	s := status.Convert(err)
	e := &Error{Service: c.service, Method: c.method, Code: s.Code(), cause: err}
	if refused, ok := errors.AsType[*refusal](err); ok {
		e.Reason, e.RetryAfter = refused.reason, refused.retryAfter
	}
	switch {
	case errors.Is(gone, context.Canceled):
		e.Code, e.ByCaller, e.cause = codes.Canceled, true, gone
	case e.Code == codes.ResourceExhausted && isTooBig(s.Message()):
		e.Code = codes.Internal
	case int(e.Code) >= numCodes:
		e.Code = codes.Unknown // no such code: gRPC's own rule
	}
	for _, detail := range s.Details() {
		e.add(detail)
	}
	e.status = withCode(s, e.Code)
	return e
}

// add takes from a detail of the status what is of use.
func (e *Error) add(detail any) {
	switch d := detail.(type) {
	case *errdetails.BadRequest:
		for _, v := range d.GetFieldViolations() {
			if len(e.Violations) == maxViolations {
				return
			}
			e.Violations = append(e.Violations, Violation{
				Field:       cut(v.GetField(), maxField),
				Description: cut(v.GetDescription(), maxDescription),
			})
		}
	case *errdetails.RetryInfo:
		if d.GetRetryDelay() != nil {
			e.RetryAfter = min(max(d.GetRetryDelay().AsDuration(), minRetryAfter), maxRetryAfter)
		}
	case *errdetails.ErrorInfo:
		e.Reason = cut(d.GetReason(), maxReason)
	}
}

// Error says everything, the service's own message included. It is for logs alone: nothing of it may reach a client.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s.%s: %s: %s", e.Service, e.Method, e.Code, cut(e.status.Message(), maxMessage))
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text
}

// Unwrap returns the caller's context error where the caller gave up, else the failure as the library returned it.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus has the functions of the status package see the service's status, with the code as it was put right.
func (e *Error) GRPCStatus() *status.Status { return e.status }

func withCode(s *status.Status, code codes.Code) *status.Status {
	if s.Code() == code {
		return s
	}
	p := s.Proto()
	p.Code = int32(code)
	return status.FromProto(p)
}

// isTooBig tells the library's refusal of a message that exceeds a limit, ours or the service's own, from a service that
// asks for less traffic. Both are RESOURCE_EXHAUSTED, and only the text differs.
func isTooBig(message string) bool {
	return strings.Contains(message, "larger than max")
}

// cut shortens s to at most limit bytes without cutting a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
