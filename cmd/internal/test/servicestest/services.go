// Package servicestest has stubs of the services behind a gateway.
package servicestest

import (
	"context"
	"crypto/rand"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/authn"
	"opsgate/internal/testkit"
	"opsgate/internal/testkit/grpctest"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// Token and team in the answers of the identity service.
const (
	TokenID = "0b8e3a0e-7c5e-4f57-9d0c-0d7f2a8f2a11"
	TeamID  = "5d6f0f8a-2f5b-4b52-8a41-8f8b4a1f7c01"
)

// Services are stubs of the identity and fleet services on a socket. Of the others, they answer
// probes only.
type Services struct {
	identityv1.UnimplementedIdentityServiceServer
	fleetv1.UnimplementedFleetServiceServer
	monitoringv1.UnimplementedMonitoringServiceServer
	incidentv1.UnimplementedIncidentServiceServer
	auditv1.UnimplementedAuditServiceServer

	Address string
	Token   string            // a valid one
	Scopes  []string          // of the token, in addition to servers:read
	Names   [2]string         // of token and team
	Arrived chan struct{}     // receives a value for each held call
	Release chan struct{}     // if not nil, calls of ListServers wait until it is closed
	Revoked atomic.Bool       // the identity service answers that the token was revoked
	Invalid atomic.Bool       // the identity service answers with a team id that is not a UUID
	Sends   bool              // the revocation stream sends a position
	Revoke  chan struct{}     // closed to revoke the token on the revocation stream
	Flaps   bool              // every second lookup of a token fails
	Servers []*fleetv1.Server // the answer of ListServers
	Takes   atomic.Int64      // time.Duration of each call of ListServers
	Fails   atomic.Bool       // all lookups of tokens fail
	Hangs   atomic.Bool       // no lookup of a token is answered

	resolved atomic.Int64 // lookups of tokens
}

// Start starts services at a free port.
func Start(tb testing.TB) *Services {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(tb, err)
	return StartOn(tb, listener)
}

// StartOn starts services on a listener.
func StartOn(tb testing.TB, listener net.Listener) *Services {
	tb.Helper()
	token, err := authn.TokenFormat{Prefix: "ops_"}.New(rand.Reader)
	testkit.Must(tb, err)
	s := &Services{Address: listener.Addr().String(), Token: token, Arrived: make(chan struct{}, 10),
		Revoke: make(chan struct{})}
	s.Serve(tb, listener)
	return s
}

// Serve serves the services on one more listener until the end of the test, or until stop is
// called.
func (s *Services) Serve(tb testing.TB, listener net.Listener) (stop func()) {
	tb.Helper()
	server := grpc.NewServer()
	identityv1.RegisterIdentityServiceServer(server, s)
	fleetv1.RegisterFleetServiceServer(server, s)
	monitoringv1.RegisterMonitoringServiceServer(server, s)
	incidentv1.RegisterIncidentServiceServer(server, s)
	auditv1.RegisterAuditServiceServer(server, s)
	grpctest.Serve(tb, server, listener)
	return server.Stop
}

// errMissing is the contract's answer to a request without fields.
var errMissing = status.Error(codes.InvalidArgument, "a field is missing")

// ResolveToken implements [identityv1.IdentityServiceServer].
func (s *Services) ResolveToken(
	ctx context.Context, r *identityv1.ResolveTokenRequest,
) (*identityv1.ResolveTokenResponse, error) {
	if len(r.GetTokenSha256()) == 0 { // a probe
		return nil, errMissing
	}
	if s.Hangs.Load() {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if s.resolved.Add(1)%2 == 1 && s.Flaps || s.Fails.Load() {
		return nil, status.Error(codes.ResourceExhausted, "too many calls") // no breaker counts it
	}
	if [32]byte(r.GetTokenSha256()) != authn.Hash(s.Token) {
		return nil, status.Error(codes.NotFound, "no such token")
	}
	if s.Revoked.Load() {
		refusal, err := status.New(codes.NotFound, "no such token").WithDetails(
			&errdetails.ErrorInfo{Reason: "TOKEN_REVOKED", Metadata: map[string]string{"token_id": TokenID}})
		if err != nil {
			return nil, err
		}
		return nil, refusal.Err()
	}
	team := TeamID
	if s.Invalid.Load() {
		team = "hunter2"
	}
	return &identityv1.ResolveTokenResponse{
		TokenId: TokenID, TeamId: team, Scopes: append([]string{"servers:read"}, s.Scopes...), Plan: identityv1.Plan_PLAN_AI,
		TokenName: s.Names[0], TeamName: s.Names[1],
	}, nil
}

// WatchRevocations implements [identityv1.IdentityServiceServer].
func (s *Services) WatchRevocations(
	_ *identityv1.WatchRevocationsRequest, stream grpc.ServerStreamingServer[identityv1.WatchRevocationsResponse],
) error {
	if s.Sends {
		if err := stream.Send(&identityv1.WatchRevocationsResponse{Position: "1"}); err != nil {
			return err
		}
	}
	select {
	case <-s.Revoke:
		hash := authn.Hash(s.Token)
		revocation := &identityv1.Revocation{TokenId: TokenID, TokenSha256: hash[:]}
		if err := stream.Send(&identityv1.WatchRevocationsResponse{Position: "2", Revocation: revocation}); err != nil {
			return err
		}
		<-stream.Context().Done()
	case <-stream.Context().Done():
	}
	return status.FromContextError(stream.Context().Err()).Err()
}

// ListServers implements [fleetv1.FleetServiceServer].
func (s *Services) ListServers(
	ctx context.Context, r *fleetv1.ListServersRequest,
) (*fleetv1.ListServersResponse, error) {
	if r.GetTeamId() == "" { // a probe
		return nil, errMissing
	}
	if s.Release != nil {
		s.Arrived <- struct{}{}
		select {
		case <-s.Release:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	select {
	case <-time.After(time.Duration(s.Takes.Load())):
		return &fleetv1.ListServersResponse{Servers: s.Servers}, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// ListMonitors implements [monitoringv1.MonitoringServiceServer].
func (*Services) ListMonitors(
	context.Context, *monitoringv1.ListMonitorsRequest,
) (*monitoringv1.ListMonitorsResponse, error) {
	return nil, errMissing
}

// ListIncidents implements [incidentv1.IncidentServiceServer].
func (*Services) ListIncidents(
	context.Context, *incidentv1.ListIncidentsRequest,
) (*incidentv1.ListIncidentsResponse, error) {
	return nil, errMissing
}

// ListAuditEntries implements [auditv1.AuditServiceServer].
func (*Services) ListAuditEntries(
	context.Context, *auditv1.ListAuditEntriesRequest,
) (*auditv1.ListAuditEntriesResponse, error) {
	return nil, errMissing
}
