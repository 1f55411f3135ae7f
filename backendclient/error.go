package backendclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/internal/logging"
)

// Limits of the error details that a service sends. They protect clients, whose responses contain
// violations, from bugs of a service.
const (
	maxViolations = 100

	// Maximum lengths in bytes.
	maxField       = 128
	maxDescription = 512
	maxReason      = 64
	maxMessage     = 1024

	minRetryAfter = time.Second
	maxRetryAfter = time.Hour
)

// A Violation is an invalid field of a request (google.rpc.BadRequest).
type Violation struct {
	// Field is the service's name of the field, such as "status_page_id".
	Field string
	// Description states the valid values, in words for API clients.
	Description string
}

// An Error is the error of a failed call.
type Error struct {
	// Service and Method identify the method: "fleet", "GetServer".
	Service, Method string
	// Code is the service's code, with three exceptions: Canceled if the caller canceled,
	// Unavailable if a stream was reset to slow the gateway down, and Internal if TooLarge. A
	// service may return Canceled as well, but the error wraps context.Canceled only if the caller
	// canceled.
	Code codes.Code
	// TooLarge is true if the response was larger than Settings.MaxResponseBytes, or the service
	// reports that a message is larger than its limit. This is no failure of the service, as the
	// size depends on the caller's data. Code is Internal then.
	TooLarge bool
	// NamesResource is true if requests of the method name a resource by its id, such as requests
	// of GetServer. Only such a method may return NotFound.
	NamesResource bool
	// HasKey is true if the request had an idempotency key.
	HasKey bool
	// Refused is true if the service, or a proxy in front of it, refused the gateway itself.
	Refused bool
	// Violations are the invalid fields of the request, at most 100.
	Violations []Violation
	// RetryAfter is the wait that the service requests (google.rpc.RetryInfo), 1 s to 1 h, or the
	// wait that this package requires with a Reason of its own, at least 1 s; 0 for none.
	RetryAfter time.Duration
	// Reason is the service's reason (google.rpc.ErrorInfo), or a reason of this package, such as
	// [ReasonBreakerOpen]; "" for none.
	Reason string

	status *status.Status // of the service, but with Code
	cause  error
}

// FailureReason returns Reason, for packages that record failures of calls without this package.
func (e *Error) FailureReason() string { return e.Reason }

// A shedError is an error of this package: no attempt, or no further attempt, was made, or a large
// response was not decoded in time.
type shedError struct {
	reason     string
	retryAfter time.Duration
	text       string
}

// newShedError returns a *shedError. Its retryAfter is at least minRetryAfter.
func newShedError(reason string, retryAfter time.Duration, text string) error {
	return &shedError{reason: reason, retryAfter: max(retryAfter, minRetryAfter), text: text}
}

// Error implements error.
func (e *shedError) Error() string { return e.text }

// GRPCStatus returns Unavailable.
func (e *shedError) GRPCStatus() *status.Status { return status.New(codes.Unavailable, e.text) }

// newError returns the error of a failed call. callerErr is the error of the caller's context.
func newError(callerErr error, m *method, err error) *Error {
	s := status.Convert(err)
	e := &Error{
		Service: m.service, Method: m.name, NamesResource: m.namesResource, Code: s.Code(),
		Refused: refusesGateway(err, m.namesResource), cause: err,
	}
	if shed, ok := errors.AsType[*shedError](err); ok {
		e.Reason, e.RetryAfter = shed.reason, shed.retryAfter
	}
	switch {
	case errors.Is(callerErr, context.Canceled):
		e.Code, e.cause = codes.Canceled, callerErr
	case e.Code == codes.ResourceExhausted && isTooLarge(s.Message()):
		e.Code, e.TooLarge = codes.Internal, true
	case e.Code == codes.ResourceExhausted && strings.HasPrefix(s.Message(), resetStream):
		e.Code = codes.Unavailable // ENHANCE_YOUR_CALM or FLOW_CONTROL_ERROR: a limit of the connection, not of the caller
	case int(e.Code) >= numCodes:
		e.Code = codes.Unknown // gRPC's rule for codes that do not exist
	}
	for _, detail := range s.Details() {
		e.addDetail(detail)
	}
	e.status = withCode(s, e.Code)
	return e
}

// addDetail copies a detail of the status.
func (e *Error) addDetail(detail any) {
	switch d := detail.(type) {
	case *errdetails.BadRequest:
		for _, v := range d.GetFieldViolations() {
			if len(e.Violations) == maxViolations {
				return
			}
			e.Violations = append(e.Violations, Violation{
				Field:       logging.Truncate(v.GetField(), maxField),
				Description: logging.Truncate(v.GetDescription(), maxDescription),
			})
		}
	case *errdetails.RetryInfo:
		if d.GetRetryDelay() != nil {
			e.RetryAfter = min(max(d.GetRetryDelay().AsDuration(), minRetryAfter), maxRetryAfter)
		}
	case *errdetails.ErrorInfo:
		e.Reason = logging.Truncate(d.GetReason(), maxReason)
	}
}

// Error implements error. The text contains the service's own message and is for logs only.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s.%s: %s: %s", e.Service, e.Method, e.Code, logging.Truncate(e.status.Message(), maxMessage))
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text
}

// Unwrap returns the error of the caller's context if the caller canceled, else the error of the
// call.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus returns the service's status, but with Code.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// describe returns a failure as text for operators. It contains the service's own message.
func describe(err error) string {
	s := status.Convert(err)
	return s.Code().String() + ": " + logging.Truncate(s.Message(), maxMessage)
}

func withCode(s *status.Status, code codes.Code) *status.Status {
	if s.Code() == code {
		return s
	}
	p := s.Proto()
	p.Code = int32(code)
	return status.FromProto(p)
}

// isTooLarge reports whether a ResourceExhausted error means that a message exceeds a size limit of
// gRPC. The error of a service's rate limit differs only in its text.
func isTooLarge(message string) bool {
	return strings.Contains(message, "larger than max")
}

// resetStream is the beginning of gRPC's message for a stream that the server, or a proxy in front
// of it, has reset.
const resetStream = "stream terminated by RST_STREAM with error code: "
