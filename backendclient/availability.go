package backendclient

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc/connectivity"
)

// recordAvailability records since when the service has not been available. It is available if its connection is Ready.
func (u *upstream) recordAvailability(state connectivity.State, now time.Time) {
	if state == connectivity.Ready {
		u.unavailableSince.Store(nil)
	} else {
		u.unavailableSince.CompareAndSwap(nil, &now)
	}
}

// watch follows the state of the current connection until ctx ends. It logs when the service becomes unavailable and when it is available
// again; it does not log intermediate states.
func (u *upstream) watch(ctx context.Context) {
	logged := connectivity.Ready // a service that is available from the start needs no line
	for ctx.Err() == nil {
		c := u.connection.Load()
		state := c.grpc.GetState()
		u.recordAvailability(state, time.Now())
		switch {
		case state == logged:
		case state == connectivity.Ready:
			logged = state
			u.logger.InfoContext(ctx, "internal service is available again", slog.String("service", u.service))
		case state == connectivity.TransientFailure:
			logged = state
			u.logger.WarnContext(ctx, "internal service is unavailable", slog.String("service", u.service))
		}
		c.grpc.WaitForStateChange(c.ctx, state) // c.ctx also ends when the connection is replaced
	}
}
