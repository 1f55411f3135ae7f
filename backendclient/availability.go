package backendclient

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc/connectivity"
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
			u.logUnreachable(c.endpoints.unreachable())
		}
		c.grpc.WaitForStateChange(c.ctx, state) // c.ctx also ends when the connection is replaced
	}
}

// logUnreachable logs that the service gets no calls; nil if that has just changed.
func (u *upstream) logUnreachable(e *UnreachableError) {
	if e != nil {
		u.outages.Fail(errors.New(e.Cause), slog.String("reason", e.Reason))
	}
}

// recordUnanswered records a probe without an answer while the service has not been reached.
func (u *upstream) recordUnanswered(err error) {
	if e, ok := errors.AsType[*UnreachableError](err); ok {
		u.unanswered.Store(e)
		u.logUnreachable(e)
	}
}
