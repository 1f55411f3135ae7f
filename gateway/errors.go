package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"opsgate/authn"
	"opsgate/backendclient"
)

// problemOf returns the response to a request of the route that failed with err. If the client has disconnected, it returns clientClosed,
// except for errors that a disconnect cannot cause.
func problemOf(err error, row *Route, clientGone bool) *Problem {
	problem, ok := errors.AsType[*Problem](err)
	if clientGone && (!ok || problem.Status > http.StatusInternalServerError) {
		return clientClosed(err)
	}
	if ok {
		return problem
	}
	call, isCall := errors.AsType[*backendclient.Error](err)
	switch {
	case errors.Is(err, authn.ErrContract):
		return internal(err).withCause(failureContract.cause("identity"))
	case errors.Is(err, authn.ErrUnavailable): // whatever the gRPC code: the token is not resolved
		var retryAfter time.Duration
		if isCall {
			retryAfter = call.RetryAfter
		}
		return unavailable(retryAfter, err).withCause(causeOfIdentity(err))
	case isCall:
		if err := checkViolations(call, row); err != nil {
			return internal(err).withCause(failureContract.cause(call.Service))
		}
		return problemOfCall(call, row).withCause(causeOfCall(call))
	case errors.Is(err, context.DeadlineExceeded):
		return timedOut(err)
	}
	return internal(err)
}

// problemOfCall maps the gRPC codes of internal services to responses. Codes that gRPC does not define become a 500.
// Canceled also becomes a 500, because problemOf has already handled disconnects.
func problemOfCall(e *backendclient.Error, row *Route) *Problem {
	switch e.Code {
	case codes.InvalidArgument, codes.OutOfRange, codes.FailedPrecondition:
		p := invalid(detailsOf(e.Violations, row))
		p.err = e
		return p
	case codes.NotFound, codes.PermissionDenied: // the response does not reveal which
		return notFound(e)
	case codes.AlreadyExists, codes.Aborted:
		return conflict(e.RetryAfter, e)
	case codes.ResourceExhausted:
		p := rateLimited("the service behind this operation asked to slow down", e.RetryAfter)
		p.err = e
		return p
	case codes.DeadlineExceeded:
		return timedOut(e)
	case codes.Unavailable:
		return unavailable(e.RetryAfter, e)
	case codes.Unimplemented:
		return notImplemented(e)
	case codes.OK, codes.Canceled, codes.Unknown, codes.Internal, codes.DataLoss, codes.Unauthenticated:
		return internal(e)
	}
	return internal(e)
}
