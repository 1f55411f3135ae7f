package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/authn"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// heartbeat is the interval of messages in the stream of revocations; the contract demands at most
// ten seconds.
const heartbeat = 5 * time.Second

// serveBackend serves a backend that answers every call at once with the same message, so that its
// own cost does not affect the comparison: a list of 20 servers, one server, the creation of an
// incident, and the calls of the identity service. Every token is valid, and has all scopes of one
// team with the AI plan.
func serveBackend(ctx context.Context, lis net.Listener) error {
	srv := grpc.NewServer()
	fleetv1.RegisterFleetServiceServer(srv, newFleet())
	incidentv1.RegisterIncidentServiceServer(srv, incidents{})
	identityv1.RegisterIdentityServiceServer(srv, identity{})
	defer context.AfterFunc(ctx, srv.Stop)()
	return srv.Serve(lis)
}

type fleet struct {
	fleetv1.UnimplementedFleetServiceServer

	list *fleetv1.ListServersResponse
	one  *fleetv1.GetServerResponse
}

func newFleet() *fleet {
	list := &fleetv1.ListServersResponse{}
	for i := range 20 {
		list.Servers = append(list.Servers, server(i))
	}
	return &fleet{list: list, one: &fleetv1.GetServerResponse{Server: list.GetServers()[0]}}
}

func (f *fleet) ListServers(context.Context, *fleetv1.ListServersRequest) (*fleetv1.ListServersResponse, error) {
	return f.list, nil
}

func (f *fleet) GetServer(context.Context, *fleetv1.GetServerRequest) (*fleetv1.GetServerResponse, error) {
	return f.one, nil
}

// server returns server number i, with every field set to a value of a realistic length.
func server(i int) *fleetv1.Server {
	group := id(0x200 + i%4)
	return &fleetv1.Server{
		Id:         id(0x100 + i),
		Name:       fmt.Sprintf("web-eu-central-%02d", i+1),
		Host:       fmt.Sprintf("web%02d.eu-central.example.net", i+1),
		Os:         "Debian GNU/Linux 12 (bookworm)",
		Tags:       []string{"production", "web", "eu-central"},
		GroupId:    &group,
		LastSeenAt: timestamppb.New(time.Date(2026, 1, 2, 3, 4, i, 678_000_000, time.UTC)),
		CreatedAt:  timestamppb.New(time.Date(2025, 6, 1, 8, 30, i, 125_000_000, time.UTC)),
	}
}

type incidents struct {
	incidentv1.UnimplementedIncidentServiceServer
}

func (incidents) CreateIncident(
	context.Context, *incidentv1.CreateIncidentRequest,
) (*incidentv1.CreateIncidentResponse, error) {
	at := timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC))
	return &incidentv1.CreateIncidentResponse{Incident: &incidentv1.Incident{
		Id:        id(0x300),
		Title:     "Checkout answers slowly",
		Status:    incidentv1.IncidentStatus_INCIDENT_STATUS_INVESTIGATING,
		Impact:    incidentv1.IncidentImpact_INCIDENT_IMPACT_MINOR,
		StartedAt: at,
		CreatedAt: at,
	}}, nil
}

type identity struct {
	identityv1.UnimplementedIdentityServiceServer
}

// ResolveToken resolves every token, each with an id of its own.
func (identity) ResolveToken(
	_ context.Context, r *identityv1.ResolveTokenRequest,
) (*identityv1.ResolveTokenResponse, error) {
	h := r.GetTokenSha256()
	if len(h) != sha256.Size {
		return nil, status.Error(codes.InvalidArgument, "token_sha256 is not 32 bytes") // the gateway's probe
	}
	return &identityv1.ResolveTokenResponse{
		TokenId: fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16]),
		TeamId:  team(),
		Scopes:  authn.NewScopes(authn.AllScopes()...).Strings(),
		Plan:    identityv1.Plan_PLAN_AI,
	}, nil
}

// WatchRevocations sends no revocation, only the heartbeats that the contract demands.
func (identity) WatchRevocations(
	_ *identityv1.WatchRevocationsRequest, stream grpc.ServerStreamingServer[identityv1.WatchRevocationsResponse],
) error {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		if err := stream.Send(&identityv1.WatchRevocationsResponse{Position: "0"}); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-tick.C:
		}
	}
}

// team returns the id of the only team.
func team() string { return id(0x500) }

// id returns the UUID number n.
func id(n int) string {
	return fmt.Sprintf("019b7a30-5c1e-7d42-9f00-%012x", n)
}
