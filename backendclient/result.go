package backendclient

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// minAttemptTime is the minimum timeout of an attempt for which DeadlineExceeded counts as a
// failure of the service. A request that has less time left was delayed elsewhere, for instance by
// a slow upload: slow clients must not open the breaker.
const minAttemptTime = 100 * time.Millisecond

// A result is what an attempt shows of the service.
type result int

// The results of attempts.
const (
	// success is also that of rejected calls and of responses that are too large.
	success result = iota
	// inconclusive is neither a success nor a failure: the caller canceled, or left the attempt too
	// little time.
	inconclusive
	// teamFailure is a failure that the data of the team may cause.
	teamFailure
	// serviceFailure is a failure that no data causes.
	serviceFailure
)

// classify returns the result of the attempt of c that has ended with err.
func (c *call) classify(err error) result {
	code, refused := status.Code(err), refusesGateway(err, c.method.namesResource)
	deadline, _ := c.ctx.Deadline() // it has one
	switch {
	case code == codes.Canceled:
		return inconclusive
	case !isFailure(code) && !refused:
		return success
	case errors.Is(c.ctx.Err(), context.Canceled),
		code == codes.DeadlineExceeded && deadline.Sub(c.attemptStart) < minAttemptTime:
		return inconclusive
	case c.team == "", refused, code == codes.Unavailable && !c.ctx.answered:
		return serviceFailure
	}
	return teamFailure
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
