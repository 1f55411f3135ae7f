package backendclient

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"opsgate/backendclient/breaker"
	"opsgate/backendclient/endpoints"
	"opsgate/internal/logging"
)

// A ServiceStatus is the status of a service.
type ServiceStatus struct {
	// Connection is the state of the connection. The service is available while it is Ready.
	Connection connectivity.State
	// UnavailableSince is when the service became unavailable; zero while it is available.
	UnavailableSince time.Time
	// Reached is when a probe first found the service at one of its addresses; zero for never since
	// the process started. A connection alone does not show that the service is reached: a proxy
	// accepts connections for a service that is down.
	Reached time.Time
	// Unreachable is why the service gets no calls, or why no probe has ever reached it although it
	// is connected; else nil.
	Unreachable *endpoints.UnreachableError
	// Breaker is the status of the service's breakers.
	Breaker breaker.Status
	// Endpoints are the addresses of the service, sorted; none before the service's name was
	// resolved.
	Endpoints []endpoints.Status
	// Wrong are the addresses at which another service answers; nil for none.
	Wrong *WrongEndpoints
	// FailedLookup is why the name of the service does not resolve; nil if the name resolves.
	FailedLookup *endpoints.FailedLookup
}

// WrongEndpoints are the addresses of a service at which another service answers, as
// [Clients.RunProbes] found them.
type WrongEndpoints struct {
	Since     time.Time
	Addresses []string
}

func (u *upstream) status() ServiceStatus {
	c := u.connection.Load()
	s := ServiceStatus{
		Connection: c.grpc.GetState(), Unreachable: u.unreachable(), Breaker: u.breakers.Status(),
		Endpoints: c.endpoints.Statuses(), FailedLookup: c.endpoints.FailedLookup(),
	}
	if at := u.unavailableSince.Load(); at != nil {
		s.UnavailableSince = *at
	}
	if at := u.reached.Load(); at != nil {
		s.Reached = *at
	}
	for _, e := range s.Endpoints {
		if e.WrongSince.IsZero() {
			continue
		}
		if s.Wrong == nil {
			s.Wrong = &WrongEndpoints{Since: e.WrongSince}
		}
		s.Wrong.Addresses = append(s.Wrong.Addresses, e.Address)
		if e.WrongSince.Before(s.Wrong.Since) {
			s.Wrong.Since = e.WrongSince
		}
	}
	return s
}

// recordAvailability records when the service became unavailable. The service is available while
// its connection is Ready.
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

// logUnreachable logs why the service gets no calls. If an endpoint has just become ready, e is
// nil, and nothing is logged.
func (u *upstream) logUnreachable(e *endpoints.UnreachableError) {
	if e != nil {
		u.outages.Fail(errors.New(e.Cause), slog.String("reason", e.Reason))
	}
}

// recordUnanswered records and logs that a service that was never reached did not answer a probe.
func (u *upstream) recordUnanswered(err error) {
	if e, ok := errors.AsType[*endpoints.UnreachableError](err); ok {
		u.unanswered.Store(e)
		u.logUnreachable(e)
	}
}

// unreachable returns why the service gets no calls, or why no probe has reached the service since
// the process started; else nil.
func (u *upstream) unreachable() *endpoints.UnreachableError {
	if e := u.connection.Load().endpoints.Unreachable(); e != nil || u.reached.Load() != nil {
		return e
	}
	if e := u.unanswered.Load(); e != nil {
		return e
	}
	return &endpoints.UnreachableError{Reason: "connected, and not probed yet"}
}

// unansweredProbe returns the error of a connected endpoint that did not answer a probe. code is
// the result of the probe.
func unansweredProbe(code codes.Code, err error) *endpoints.UnreachableError {
	return &endpoints.UnreachableError{
		Reason: "connected, and no answer to a probe: " + code.String(), Cause: logging.Truncate(err.Error(), maxMessage),
	}
}
