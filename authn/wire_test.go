package authn_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	"opsgate/authn"
	"opsgate/backendclient"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// identityServer serves an identity over gRPC. A test sends the events of its stream.
type identityServer struct {
	identityv1.UnimplementedIdentityServiceServer

	identity *identity
	events   chan *identityv1.WatchRevocationsResponse
	seen     chan string // the start positions of streams
}

func (s *identityServer) ResolveToken(
	ctx context.Context, request *identityv1.ResolveTokenRequest,
) (*identityv1.ResolveTokenResponse, error) {
	return s.identity.ResolveToken(ctx, request)
}

func (s *identityServer) WatchRevocations(
	request *identityv1.WatchRevocationsRequest, stream grpc.ServerStreamingServer[identityv1.WatchRevocationsResponse],
) error {
	s.seen <- request.GetAfterPosition()
	for {
		select {
		case message := <-s.events:
			if err := stream.Send(message); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// The package works with a backendclient over a real socket.
func TestOverTheWire(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service := &identityServer{
		identity: newIdentity(), events: make(chan *identityv1.WatchRevocationsResponse), seen: make(chan string),
	}
	server := grpc.NewServer()
	identityv1.RegisterIdentityServiceServer(server, service)
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	}()
	upstream := backendclient.Upstream{Address: listener.Addr().String()}
	clients, err := backendclient.Dial(backendclient.Options{Upstreams: backendclient.Upstreams{
		Fleet: upstream, Monitoring: upstream, Incident: upstream, Audit: upstream, Identity: upstream,
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := clients.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}()

	a := newAuthenticator(t, clients.Identity)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	if after := <-service.seen; after != "" {
		t.Errorf("watched after %q, want from now", after)
	}
	service.events <- &identityv1.WatchRevocationsResponse{Position: "1"}

	live, dead := service.identity.know(1), service.identity.know(2)
	service.identity.revoke(dead)
	accepted(t, a, live)
	refused(t, a, dead, authn.ErrRevoked) // distinguished by the ErrorInfo
	refused(t, a, mint(3), authn.ErrUnknown)

	hash := authn.Hash(live)
	service.events <- &identityv1.WatchRevocationsResponse{
		Position: "2", Revocation: &identityv1.Revocation{TokenId: idOf(live), TokenSha256: hash[:]},
	}
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		if _, err = a.Authenticate(t.Context(), live, office); err != nil {
			break
		}
	}
	if !errors.Is(err, authn.ErrRevoked) { // without a lookup: in the service the token is still live
		t.Errorf("a revoked token: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}
