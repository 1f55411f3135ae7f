package backendclient

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/connectivity"
)

// A downtime is the start of the current downtime of a service; nil while the service is available.
type downtime struct{ since atomic.Pointer[time.Time] }

func (d *downtime) update(state connectivity.State, now time.Time) {
	switch {
	case state == connectivity.Ready:
		d.since.Store(nil)
	case d.since.Load() == nil:
		d.since.Store(&now)
	}
}

// watch follows the state of the current connection until ctx ends. It logs when the service becomes unavailable and when it is available
// again; it does not log intermediate states.
func (u *upstream) watch(ctx context.Context) {
	logged := connectivity.Ready // a service that is available from the start needs no line
	for ctx.Err() == nil {
		c := u.connection.Load()
		state := c.grpc.GetState()
		u.downtime.update(state, time.Now())
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
