package wiring_test

import (
	"context"
	"crypto/rand"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/authn"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// services are stubs of the identity and fleet services on a socket.
type services struct {
	identityv1.UnimplementedIdentityServiceServer
	fleetv1.UnimplementedFleetServiceServer

	address string
	token   string        // a valid one
	scopes  []string      // of the token, in addition to servers:read
	arrived chan struct{} // receives a value for each held call
	release chan struct{} // if not nil, calls of ListServers wait until it is closed
	revoked atomic.Bool   // the identity service answers that the token was revoked
	invalid atomic.Bool   // the identity service answers with a team id that is not a UUID
	sends   bool          // the revocation stream sends a position

	flaps    bool         // every second lookup of a token fails
	resolved atomic.Int64 // lookups of tokens
}

func startServices(tb testing.TB) *services {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return serve(tb, listener)
}

// serve starts services on a listener.
func serve(tb testing.TB, listener net.Listener) *services {
	tb.Helper()
	token, err := authn.TokenFormat{Prefix: "ops_"}.New(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	s := &services{address: listener.Addr().String(), token: token, arrived: make(chan struct{}, 10)}
	server := grpc.NewServer()
	identityv1.RegisterIdentityServiceServer(server, s)
	fleetv1.RegisterFleetServiceServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	tb.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
	return s
}

func (s *services) ResolveToken(_ context.Context, r *identityv1.ResolveTokenRequest) (*identityv1.ResolveTokenResponse, error) {
	if s.resolved.Add(1)%2 == 1 && s.flaps {
		return nil, status.Error(codes.ResourceExhausted, "too many calls") // no breaker counts it
	}
	if [32]byte(r.GetTokenSha256()) != authn.Hash(s.token) {
		return nil, status.Error(codes.NotFound, "no such token")
	}
	if s.revoked.Load() {
		refusal, err := status.New(codes.NotFound, "no such token").WithDetails(
			&errdetails.ErrorInfo{Reason: "TOKEN_REVOKED", Metadata: map[string]string{"token_id": tokenID}})
		if err != nil {
			return nil, err
		}
		return nil, refusal.Err()
	}
	team := teamID
	if s.invalid.Load() {
		team = "hunter2"
	}
	return &identityv1.ResolveTokenResponse{
		TokenId: tokenID, TeamId: team,
		Scopes: append([]string{"servers:read"}, s.scopes...), Plan: identityv1.Plan_PLAN_AI,
	}, nil
}

func (s *services) WatchRevocations(
	_ *identityv1.WatchRevocationsRequest, stream grpc.ServerStreamingServer[identityv1.WatchRevocationsResponse],
) error {
	if s.sends {
		if err := stream.Send(&identityv1.WatchRevocationsResponse{Position: "1"}); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return status.FromContextError(stream.Context().Err()).Err()
}

func (s *services) ListServers(ctx context.Context, _ *fleetv1.ListServersRequest) (*fleetv1.ListServersResponse, error) {
	if s.release != nil {
		s.arrived <- struct{}{}
		select {
		case <-s.release:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	return &fleetv1.ListServersResponse{}, nil
}
