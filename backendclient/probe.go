package backendclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"opsgate/backendclient/endpoints"
)

const (
	// probeTimeout is the timeout of a probe. Probe waits twice as long for a connection.
	probeTimeout = 2 * time.Second
	// probeInterval is the time between probes of endpoints where no probe has found the right
	// service.
	probeInterval = 10 * time.Second
)

// A WrongServiceError is the error of a probe that was answered by another service, or by a server
// without services.
type WrongServiceError struct {
	Service string // the short name of the expected service
	Method  string // the method that was answered with Unimplemented
	Address string // of the endpoint
}

// Error implements error.
func (e *WrongServiceError) Error() string {
	return fmt.Sprintf("wrong service at this address: %s answers Unimplemented to %s.%s", e.Address, e.Service, e.Method)
}

// Probe checks that the endpoints of a service, given by its short name, are of that service. It
// sends each connected endpoint a request without fields, which the service answers with
// InvalidArgument without reading data. It waits up to four seconds for a connection.
//
// Probe returns nil if each endpoint gives an answer other than Unimplemented. It returns a
// *[WrongServiceError] if an endpoint answers Unimplemented, and else an
// *[endpoints.UnreachableError] of a connection or of an endpoint that gives no answer.
// Unavailable, Canceled, a timeout and a refusal of the gateway count as no answer, because proxies
// and gRPC itself return them too. A probe is not retried, and does not count in metrics, breakers,
// ejections or calls in flight.
func (c *Clients) Probe(ctx context.Context, service string) error {
	u, ok := c.upstreams[service]
	if !ok {
		return fmt.Errorf("no service %q", service)
	}
	conn := u.acquire()
	defer conn.release()
	// Longer than gRPC's timeout of a connection, so that Unreachable returns the reason of the
	// failure.
	waitCtx, cancel := context.WithTimeout(ctx, 2*u.probeTimeout)
	defer cancel()
	conn.await(waitCtx, func(s connectivity.State) bool {
		return s == connectivity.Ready ||
			s == connectivity.TransientFailure
	})
	if failure := conn.endpoints.Unreachable(); failure != nil {
		return failure
	}
	all := errors.Join(u.probeAll(ctx, conn, conn.endpoints.Connected())...)
	if wrong, ok := errors.AsType[*WrongServiceError](all); ok {
		return wrong
	}
	return all
}

// probeAll probes endpoints at the same time, and returns the error of each.
func (u *upstream) probeAll(ctx context.Context, conn *connection, list []*endpoints.Endpoint) []error {
	errs := make([]error, len(list))
	var running sync.WaitGroup
	for i, e := range list {
		running.Go(func() { errs[i] = u.probe(ctx, conn, e) })
	}
	running.Wait()
	return errs
}

// probe calls the probe method of the service at an endpoint. The call is a stream, which neither
// the interceptor of calls nor the balancer counts.
func (u *upstream) probe(ctx context.Context, conn *connection, e *endpoints.Endpoint) error {
	ctx, cancel := context.WithTimeout(endpoints.WithEndpoint(ctx, e), u.probeTimeout)
	defer cancel()
	stream, err := conn.grpc.NewStream(ctx, &grpc.StreamDesc{}, u.probeMethod)
	if err == nil {
		_ = stream.SendMsg(&emptypb.Empty{}) // RecvMsg returns the error of the call
		_ = stream.CloseSend()
		err = stream.RecvMsg(&emptypb.Empty{})
	}
	switch code := status.Code(err); {
	case ctx.Err() != nil:
		return unansweredProbe(codes.DeadlineExceeded, ctx.Err())
	case code == codes.Unimplemented:
		return &WrongServiceError{Service: u.service, Method: methodName(u.probeMethod), Address: e.Address()}
	case code == codes.Unavailable, code == codes.Canceled, code == codes.DeadlineExceeded, code == codes.PermissionDenied,
		code == codes.Unauthenticated:
		return unansweredProbe(code, err)
	}
	return nil
}

// RunProbes probes each endpoint after it was connected, and every ten seconds until the right
// service answers; see [WrongEndpoints]. It returns nil when ctx ends. It must be called at
// most once.
func (c *Clients) RunProbes(ctx context.Context) error {
	var running sync.WaitGroup
	for _, u := range c.upstreams {
		running.Go(func() { u.runProbes(ctx, c.options.intervals.probe) })
	}
	running.Wait()
	return nil
}

func (u *upstream) runProbes(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		conn := u.acquire()
		var running sync.WaitGroup
		for e, generation := range conn.endpoints.ToProbe() {
			running.Go(func() { u.recordProbe(ctx, conn.endpoints, e, generation, u.probe(ctx, conn, e)) })
		}
		running.Wait()
		conn.release()
		select {
		case <-u.probesDue:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// requestProbes makes runProbes probe without waiting for its interval.
func (u *upstream) requestProbes() {
	select {
	case u.probesDue <- struct{}{}:
	default:
	}
}

// recordProbe records the result of a probe of an endpoint, and logs a change. Until the service is
// reached, it also logs a probe without an answer, because a proxy may accept connections for a
// service that is down. generation is the generation of the endpoint's connection before the probe.
func (u *upstream) recordProbe(
	ctx context.Context, s *endpoints.Set, e *endpoints.Endpoint, generation int, err error,
) {
	result := endpoints.NoAnswer
	if err == nil {
		result = endpoints.RightService
	} else if _, wrong := errors.AsType[*WrongServiceError](err); wrong {
		result = endpoints.WrongService
	}
	current, changed := s.RecordProbe(e, generation, result)
	line := u.logger.With(slog.String("service", u.service), slog.String("address", e.Address()))
	switch {
	case !current:
	case result == endpoints.RightService:
		u.reached.CompareAndSwap(nil, new(time.Now()))
		u.outages.Succeed()
		if changed {
			line.InfoContext(ctx, "the right service is at this address now")
		}
	case changed:
		line.ErrorContext(ctx, "wrong service at this address", slog.Any("error", err))
	case result == endpoints.NoAnswer && u.reached.Load() == nil:
		u.recordUnanswered(err)
	}
}
