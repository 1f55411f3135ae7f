package backendclient

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/backendclient/breaker"
	"opsgate/backendclient/endpoints"
)

// minAttemptTime is the minimum timeout of an attempt for which DeadlineExceeded counts as a
// failure of the service. A request that has less time left was delayed elsewhere, for instance by
// a slow upload: slow clients must not open the breaker.
const minAttemptTime = 100 * time.Millisecond

// classify returns the result of the attempt of c that has ended with err. That of a rejected call
// and of a response that is too large is a success. It is inconclusive if the caller canceled, or
// left the attempt too little time.
func (c *call) classify(err error) breaker.Result {
	code, refused := status.Code(err), refusesGateway(err, c.method.namesResource)
	deadline, _ := c.ctx.Deadline() // it has one
	switch {
	case code == codes.Canceled:
		return breaker.Inconclusive
	case !isFailure(code) && !refused:
		return breaker.Success
	case errors.Is(c.ctx.Err(), context.Canceled),
		code == codes.DeadlineExceeded && deadline.Sub(c.attemptStart) < minAttemptTime:
		return breaker.Inconclusive
	case c.ctx.team == "", refused, code == codes.Unavailable && !c.ctx.answered:
		return breaker.ServiceFailure
	}
	return breaker.TeamFailure
}

// Ended implements [endpoints.Call]. A broken connection is no failure of the endpoint: it is
// recognized by the call, Unavailable without a byte, because the call may end before the
// endpoint's state changes, or after the next connection is ready.
func (c *callContext) Ended(info balancer.DoneInfo, began time.Time) endpoints.Result {
	c.answered = info.BytesReceived
	deadline, _ := c.Deadline()
	code := status.Code(info.Err)
	failed := isFailure(code) || refusesGateway(info.Err, c.namesResource)
	switch {
	case failed && code == codes.Unavailable && !info.BytesReceived,
		failed && code == codes.DeadlineExceeded && deadline.Sub(began) < minAttemptTime:
		return endpoints.OtherFailure
	case failed:
		return endpoints.Failure
	case code == codes.Canceled, !info.BytesReceived:
		// The caller canceled, or the connection broke after the pick (no error, no bytes) and gRPC
		// picks again.
		return endpoints.Inconclusive
	}
	return endpoints.Success
}

// isFailure reports whether a code means that the service failed. Unauthenticated does: the service
// rejects the gateway itself. A code that gRPC does not define counts as Unknown.
func isFailure(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown, codes.DataLoss, codes.Unauthenticated:
		return true
	default:
		return int(code) >= numCodes
	}
}

// forbidden is the beginning of gRPC's message for an answer with HTTP 403 and without a status of
// gRPC.
const forbidden = "unexpected HTTP status code received from server: 403"

// refusesGateway reports whether a call ended with a refusal of the gateway itself and not of a
// team: of its credentials, or by a policy, for example of a service mesh. A policy answers
// PermissionDenied, as a service may only for a resource.
func refusesGateway(err error, namesResource bool) bool {
	switch s := status.Convert(err); s.Code() {
	case codes.Unauthenticated:
		return true
	case codes.PermissionDenied:
		return !namesResource || strings.HasPrefix(s.Message(), forbidden)
	default:
		return false
	}
}
