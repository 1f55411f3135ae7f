package backendclient_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"opsgate/backendclient"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// A wire replaces the connections in synctest tests: it answers for all services and counts
// attempts.
type wire struct {
	answer   func(ctx context.Context) error
	byTeam   func(ctx context.Context, team string) error // instead of answer, unless nil
	attempts atomic.Int64
}

// overWire returns clients of the wire.
func overWire(t testing.TB, w *wire, change ...func(*backendclient.Options)) *backendclient.Clients {
	t.Helper()
	return intercepted(t, func(
		ctx context.Context, _ string, request, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption,
	) error {
		w.attempts.Add(1)
		if w.byTeam != nil {
			return w.byTeam(ctx, request.(interface{ GetTeamId() string }).GetTeamId())
		}
		return w.answer(ctx)
	}, change...)
}

// intercepted returns clients whose attempts an interceptor answers. They make no connections, so
// only waiting calls advance the clock.
func intercepted(t testing.TB, answer grpc.UnaryClientInterceptor, change ...func(*backendclient.Options)) *backendclient.Clients {
	t.Helper()
	return dial(t, at("passthrough:///nowhere"), append(change, func(o *backendclient.Options) {
		o.DialOptions = []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}),
			grpc.WithChainUnaryInterceptor(answer),
		}
	})...)
}

// always returns the same error for each attempt.
func always(err error) func(context.Context) error { return func(context.Context) error { return err } }

// hang waits for the end of the call, like a service that does not respond.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return status.FromContextError(ctx.Err()).Err()
}

// call calls the fleet service with a timeout of one second.
func call(t testing.TB, clients *backendclient.Clients) error {
	t.Helper()
	return callFor(t, clients, time.Second)
}

func callFor(t testing.TB, clients *backendclient.Clients, timeout time.Duration) error {
	t.Helper()
	return callOf(t, clients, "", timeout)
}

// callOf makes a call of a team.
func callOf(t testing.TB, clients *backendclient.Clients, team string, timeout time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	_, err := clients.Fleet.GetServer(ctx, &fleetv1.GetServerRequest{TeamId: team})
	return err
}

// isRefused reports whether err has the reason.
func isRefused(t testing.TB, err error, reason string) bool {
	t.Helper()
	return err != nil && failure(t, err).Reason == reason
}
