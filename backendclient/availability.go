package backendclient

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc/connectivity"

	"opsgate/internal/outagelog"
)

// recordAvailability records since when the service has not been available. It is available if its connection is Ready.
func (u *upstream) recordAvailability(state connectivity.State, now time.Time) {
	if state == connectivity.Ready {
		u.unavailableSince.Store(nil)
	} else {
		u.unavailableSince.CompareAndSwap(nil, &now)
	}
}

// watch follows the state of the current connection until ctx ends. It does not log intermediate states.
func (u *upstream) watch(ctx context.Context) {
	log := outagelog.Log{
		Logger: u.logger.With(slog.String("service", u.service)),
		Failed: "internal service is unavailable", Recovered: "internal service is available again",
	}
	for ctx.Err() == nil {
		c := u.connection.Load()
		state := c.grpc.GetState()
		u.recordAvailability(state, time.Now())
		switch state {
		case connectivity.Ready:
			log.Succeed()
		case connectivity.TransientFailure:
			log.Fail(nil)
		}
		c.grpc.WaitForStateChange(c.ctx, state) // c.ctx also ends when the connection is replaced
	}
}
