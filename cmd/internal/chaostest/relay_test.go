package chaostest

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

// A relay stands between gateways and the identity service and passes on what it is asked, as slowly as it is told to. Once it is
// muted, it says nothing of revocations any more.
type relay struct {
	identityv1.UnimplementedIdentityServiceServer

	address string
	behind  identityv1.IdentityServiceClient
	slow    time.Duration // to answer who has a token
	muted   chan struct{}
	mute    func()

	underWay, most, asked atomic.Int64 // look-ups
}

func startRelay(t *testing.T, to string, slow time.Duration) *relay {
	t.Helper()
	conn, err := grpc.NewClient(to, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{
		address: listener.Addr().String(), behind: identityv1.NewIdentityServiceClient(conn), slow: slow, muted: make(chan struct{}),
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

// ResolveToken asks the service behind.
func (r *relay) ResolveToken(ctx context.Context, asked *identityv1.ResolveTokenRequest) (*identityv1.ResolveTokenResponse, error) {
	r.asked.Add(1)
	now := r.underWay.Add(1)
	defer r.underWay.Add(-1)
	for most := r.most.Load(); now > most && !r.most.CompareAndSwap(most, now); most = r.most.Load() {
	}
	if r.slow > 0 {
		select {
		case <-time.After(r.slow):
		case <-ctx.Done():
		}
	}
	return r.behind.ResolveToken(ctx, asked)
}

// WatchRevocations passes on what the service behind says, until the relay is muted.
func (r *relay) WatchRevocations(
	asked *identityv1.WatchRevocationsRequest, to grpc.ServerStreamingServer[identityv1.WatchRevocationsResponse],
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
	from, err := r.behind.WatchRevocations(ctx, asked)
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
