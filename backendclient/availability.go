package backendclient

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"opsgate/backendclient/endpoints"
	"opsgate/internal/logging"
)

// recordAvailability records since when the service has not been available. It is available if its
// connection is Ready.
func (u *upstream) recordAvailability(state connectivity.State, now time.Time) {
	if state == connectivity.Ready {
		u.unavailableSince.Store(nil)
	} else {
		u.unavailableSince.CompareAndSwap(nil, &now)
	}
}

// watch follows the state of the current connection until ctx ends. It does not log intermediate
// states.
func (u *upstream) watch(ctx context.Context) {
	for ctx.Err() == nil {
		c := u.connection.Load()
		state := c.grpc.GetState()
		u.recordAvailability(state, time.Now())
		switch state {
		case connectivity.Ready:
			u.outages.Succeed()
		case connectivity.TransientFailure:
			u.logUnreachable(c.endpoints.Unreachable())
		}
		c.grpc.WaitForStateChange(c.ctx, state) // c.ctx also ends when the connection is replaced
	}
}

// logUnreachable logs that the service gets no calls; nil if that has just changed.
func (u *upstream) logUnreachable(e *endpoints.UnreachableError) {
	if e != nil {
		u.outages.Fail(errors.New(e.Cause), slog.String("reason", e.Reason))
	}
}

// recordUnanswered records a probe without an answer while the service has not been reached.
func (u *upstream) recordUnanswered(err error) {
	if e, ok := errors.AsType[*endpoints.UnreachableError](err); ok {
		u.unanswered.Store(e)
		u.logUnreachable(e)
	}
}

// unreachable returns why the service gets no calls, or why it has not answered any since the
// process started; else nil.
func (u *upstream) unreachable() *endpoints.UnreachableError {
	if e := u.connection.Load().endpoints.Unreachable(); e != nil || u.reached.Load() != nil {
		return e
	}
	if e := u.unanswered.Load(); e != nil {
		return e
	}
	return &endpoints.UnreachableError{Reason: "connected, and not probed yet"}
}

// unansweredProbe returns the error of an endpoint that is connected, by the code of a probe.
func unansweredProbe(code codes.Code, err error) *endpoints.UnreachableError {
	return &endpoints.UnreachableError{
		Reason: "connected, and no answer to a probe: " + code.String(), Cause: logging.Truncate(err.Error(), maxMessage),
	}
}
