package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/gateway/decode"
)

// problemOf returns the response to a request of the route that failed with err. If the client has
// disconnected, any error of a service counts as an effect of the disconnect, and the response is
// clientClosed.
func problemOf(err error, row *Route, clientGone bool) *Problem {
	if input, ok := errors.AsType[*decode.Error](err); ok {
		return invalid(input.Details).withCause(causeOfInput(input))
	}
	problem, ok := errors.AsType[*Problem](err)
	// A Problem is an error that the gateway itself found. A Problem with 4xx or 500 is not an
	// effect of the disconnect, but one with 503 may be.
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
	case errors.Is(err, authn.ErrUnavailable): // of any gRPC code: the token is not resolved
		var retryAfter time.Duration
		if isCall {
			retryAfter = call.RetryAfter
		}
		return unavailable(retryAfter, err).withCause(causeOfIdentity(err))
	case isCall:
		kind, problem := callFailure(call, row)
		return problem.withCause(kind.cause(call.Service))
	case errors.Is(err, context.DeadlineExceeded): // while waiting for a lookup of the token: calls are above
		return timedOut(err).withCause(failureTimeout.cause("identity"))
	}
	return internal(err)
}

// callFailure returns the kind of a failed call and the response. It is the only table of gRPC
// codes. Codes that gRPC does not define become a 500, and so does Canceled, because problemOf has
// already handled disconnects.
func callFailure(e *backendclient.Error, row *Route) (failureKind, *Problem) {
	if e.TooLarge {
		return failureTooLarge, internal(e)
	}
	switch e.Code {
	case codes.InvalidArgument, codes.OutOfRange, codes.FailedPrecondition:
		if err := checkViolations(e, row); err != nil {
			return failureContract, internal(err)
		}
		return failureInvalid, invalid(detailsOf(e.Violations, row)).withError(e)
	case codes.NotFound:
		if !e.NamesResource { // a list cannot be missing: a client that synchronizes would delete its data
			return failureContract, internal(e)
		}
		return failureNotFound, notFound(e)
	case codes.PermissionDenied: // the response does not reveal that the resource exists
		if e.Refused {
			return failureRefused, internal(e)
		}
		return failureDenied, notFound(e)
	case codes.Unauthenticated:
		return failureRefused, internal(e)
	case codes.AlreadyExists, codes.Aborted:
		return failureConflict, conflict(e.HasKey, e.RetryAfter, e)
	case codes.ResourceExhausted:
		return failureThrottled,
			rateLimited("the service behind this operation asked to slow down", e.RetryAfter).withError(e)
	case codes.DeadlineExceeded:
		return failureTimeout, timedOut(e)
	case codes.Unavailable:
		return unavailableKind(e.Reason), unavailable(e.RetryAfter, e)
	case codes.Unimplemented:
		return failureUnimplemented, notImplemented(e)
	case codes.OK, codes.Canceled, codes.Unknown, codes.Internal, codes.DataLoss:
	}
	return failureInternal, internal(e)
}

func unavailableKind(reason string) failureKind {
	switch reason {
	case backendclient.ReasonBreakerOpen:
		return failureBreaker
	case backendclient.ReasonOverloaded:
		return failureOverload
	case backendclient.ReasonTeamOverloaded:
		return failureTeamOverload
	}
	return failureUnavailable
}
