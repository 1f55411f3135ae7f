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

// minAttemptTime is the minimum timeout with which an attempt that ends with DeadlineExceeded
// counts as a failure of the service. A request with less time was delayed elsewhere, for instance
// by a slow upload, and slow clients must not open the breaker.
const minAttemptTime = 100 * time.Millisecond

// classify returns the result of an attempt of c that ended with err. A call that the service
// rejects, and a response that is too large, are successes. The result is inconclusive if the
// caller canceled, or left the attempt too little time.
func (c *call) classify(err error) breaker.Result {
	code, refused := status.Code(err), refusesGateway(err, c.method.namesResource)
	deadline, _ := c.ctx.Deadline() // every call has a deadline
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

// Ended implements [endpoints.Call]. A broken connection does not count against the endpoint. It is
// recognized by the call (Unavailable, no byte received), because the endpoint's state may change
// after the call ends, or be Ready again.
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

// isFailure reports whether a code means that the service failed. Unauthenticated is a failure,
// because the service rejects the gateway itself. A code that gRPC does not define counts as
// Unknown.
func isFailure(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown, codes.DataLoss, codes.Unauthenticated:
		return true
	default:
		return int(code) >= numCodes
	}
}

// forbidden is the beginning of gRPC's message for HTTP 403 without a gRPC status.
const forbidden = "unexpected HTTP status code received from server: 403"

// refusesGateway reports whether the gateway itself was refused: Unauthenticated; PermissionDenied
// if requests name no resource, because a service returns PermissionDenied only for a resource; or
// HTTP 403 without a gRPC status, from a proxy.
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
