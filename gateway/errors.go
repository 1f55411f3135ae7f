package gateway

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"opsgate/authn"
	"opsgate/backendclient"
)

// problemOf decides what a client is told of an error, whatever it is. clientGone says whether the client hung up.
func problemOf(err error, clientGone bool) *Problem {
	if problem, ok := errors.AsType[*Problem](err); ok {
		return problem
	}
	if clientGone {
		return clientClosed(err)
	}
	call, isCall := errors.AsType[*backendclient.Error](err)
	switch {
	case errors.Is(err, authn.ErrUnavailable): // whatever the identity service said: it did not say whom the token stands for
		var retryAfter time.Duration
		if isCall {
			retryAfter = call.RetryAfter
		}
		return unavailable(retryAfter, err).because(causeOfIdentity(err))
	case isCall:
		return problemOfCall(call).because(causeOfCall(call))
	case errors.Is(err, context.DeadlineExceeded):
		return timedOut(err)
	}
	return internal(err)
}

// problemOfCall is the table of what an internal service's code is to a client. A code that gRPC does not define is a fault
// of ours, as is a Canceled that the client did not cause.
func problemOfCall(e *backendclient.Error) *Problem {
	switch e.Code {
	case codes.InvalidArgument, codes.OutOfRange, codes.FailedPrecondition:
		p := invalid(detailsOf(e.Violations))
		p.err = e
		return p
	case codes.NotFound, codes.PermissionDenied: // the caller's team may not know which
		return notFound(e)
	case codes.AlreadyExists, codes.Aborted:
		return conflict(e)
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

// detailsOf names violations as the API does, one text a field. A refusal that names no field still has details.
func detailsOf(violations []backendclient.Violation) map[string]string {
	details := make(map[string]string, max(1, len(violations)))
	for _, v := range violations {
		if name := publicField(v.Field); details[name] == "" {
			details[name] = v.Description
		}
	}
	if len(details) == 0 {
		details["request"] = "was refused by the service behind this operation"
	}
	return details
}

// publicField turns the path of a proto field into the name that a client knows: component_ids[3] is componentIds.
func publicField(path string) string {
	field, _, _ := strings.Cut(path, ".")
	field, _, _ = strings.Cut(field, "[")
	switch strings.Trim(field, "_") {
	case "":
		return "request"
	case "idempotency_key":
		return idempotencyKeyHeader
	}
	words := strings.Split(field, "_")
	for i, word := range words[1:] {
		if word != "" {
			words[i+1] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, "")
}
