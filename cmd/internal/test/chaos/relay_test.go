package chaos

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	identityv1 "opsgate/proto/ops/identity/v1"
)

// relay forwards calls to the identity service with a delay. After mute, it refuses the revocation stream.
type relay struct {
	identityv1.UnimplementedIdentityServiceServer

	address string
	backend identityv1.IdentityServiceClient
	slow    time.Duration // delay of each lookup
	muted   chan struct{}
	mute    func()

	inFlight, maxInFlight, lookUps atomic.Int64
}

func startRelay(t *testing.T, to string, slow time.Duration) *relay {
	t.Helper()
	conn, err := grpc.NewClient(to, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	r := &relay{
		address: listener.Addr().String(), backend: identityv1.NewIdentityServiceClient(conn), slow: slow, muted: make(chan struct{}),
	}
	r.mute = sync.OnceFunc(func() { close(r.muted) })
	server := grpc.NewServer()
	identityv1.RegisterIdentityServiceServer(server, r)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
		_ = conn.Close()
	})
	return r
}

// ResolveToken forwards the call after the delay.
func (r *relay) ResolveToken(ctx context.Context, request *identityv1.ResolveTokenRequest) (*identityv1.ResolveTokenResponse, error) {
	r.lookUps.Add(1)
	now := r.inFlight.Add(1)
	defer r.inFlight.Add(-1)
	for highest := r.maxInFlight.Load(); now > highest && !r.maxInFlight.CompareAndSwap(highest, now); highest = r.maxInFlight.Load() {
	}
	if r.slow > 0 {
		select {
		case <-time.After(r.slow):
		case <-ctx.Done():
		}
	}
	return r.backend.ResolveToken(ctx, request)
}

// WatchRevocations forwards the stream until the relay is muted.
func (r *relay) WatchRevocations(
	request *identityv1.WatchRevocationsRequest, to grpc.ServerStreamingServer[identityv1.WatchRevocationsResponse],
) error {
	ctx, cancel := context.WithCancel(to.Context())
	defer cancel()
	go func() {
		select {
		case <-r.muted:
			cancel()
		case <-ctx.Done():
		}
	}()
	from, err := r.backend.WatchRevocations(ctx, request)
	for err == nil {
		var message *identityv1.WatchRevocationsResponse
		if message, err = from.Recv(); err == nil {
			err = to.Send(message)
		}
	}
	select {
	case <-r.muted:
		return status.Error(codes.Unavailable, "muted")
	default:
		return err
	}
}
