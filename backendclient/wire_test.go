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

// A wire is what calls go over in a test that moves the clock: it answers in the place of all services, and counts.
type wire struct {
	answer   func(ctx context.Context) error
	attempts atomic.Int64
}

// overWire returns clients of the wire. No connection is made, so that time stands still but for what calls wait for.
func overWire(t testing.TB, w *wire, change ...func(*backendclient.Options)) *backendclient.Clients {
	t.Helper()
	return dial(t, at("passthrough:///nowhere"), append(change, func(o *backendclient.Options) {
		o.DialOptions = []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}),
			grpc.WithChainUnaryInterceptor(func(
				ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption,
			) error {
				w.attempts.Add(1)
				return w.answer(ctx)
			}),
		}
	})...)
}

// always is an answer.
func always(err error) func(context.Context) error { return func(context.Context) error { return err } }

// hang is what a service does that does not answer: the library ends the call.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return status.FromContextError(ctx.Err()).Err()
}

// call calls the fleet service with a second to answer.
func call(t testing.TB, clients *backendclient.Clients) error {
	t.Helper()
	return callFor(t, clients, time.Second)
}

func callFor(t testing.TB, clients *backendclient.Clients, timeout time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	_, err := clients.Fleet.GetServer(ctx, &fleetv1.GetServerRequest{})
	return err
}

// isRefused tells that no attempt was made, for the reason.
func isRefused(t testing.TB, err error, reason string) bool {
	t.Helper()
	if err == nil {
		return false
	}
	return failure(t, err).Reason == reason
}
