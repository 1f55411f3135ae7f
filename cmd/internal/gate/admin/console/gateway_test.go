package console_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"opsgate/authn"
	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/wiring"
	"opsgate/cmd/internal/kit/buildinfo"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
)

const (
	tokenID = "0b8e3a0e-7c5e-4f57-9d0c-0d7f2a8f2a11"
	teamID  = "5d6f0f8a-2f5b-4b52-8a41-8f8b4a1f7c01"
)

// services are the internal services of a gateway: fleet, which can be stopped, and one server for all others.
type services struct {
	identityv1.UnimplementedIdentityServiceServer
	fleetv1.UnimplementedFleetServiceServer

	token         string        // the valid token
	revoke        chan struct{} // closed to revoke the token on the stream
	fleet, others string        // addresses
	stopFleet     func()
}

func startServices(t *testing.T) *services {
	t.Helper()
	token, err := authn.TokenFormat{Prefix: "ops_"}.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &services{token: token, revoke: make(chan struct{})}
	s.others, _ = s.listen(t, "127.0.0.1:0")
	s.fleet, s.stopFleet = s.listen(t, "127.0.0.1:0")
	return s
}

// startFleet restarts fleet at its address.
func (s *services) startFleet(t *testing.T) {
	t.Helper()
	_, s.stopFleet = s.listen(t, s.fleet)
}

func (s *services) listen(t *testing.T, at string) (address string, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	identityv1.RegisterIdentityServiceServer(server, s)
	fleetv1.RegisterFleetServiceServer(server, s)
	healthv1.RegisterHealthServer(server, health.NewServer())
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String(), server.Stop
}

func (s *services) ResolveToken(_ context.Context, r *identityv1.ResolveTokenRequest) (*identityv1.ResolveTokenResponse, error) {
	if [32]byte(r.GetTokenSha256()) != authn.Hash(s.token) {
		return nil, status.Error(codes.NotFound, "no such token")
	}
	return &identityv1.ResolveTokenResponse{
		TokenId: tokenID, TeamId: teamID, Scopes: []string{"servers:read"}, Plan: identityv1.Plan_PLAN_AI,
	}, nil
}

func (s *services) WatchRevocations(
	_ *identityv1.WatchRevocationsRequest, stream grpc.ServerStreamingServer[identityv1.WatchRevocationsResponse],
) error {
	if err := stream.Send(&identityv1.WatchRevocationsResponse{Position: "1"}); err != nil {
		return err
	}
	select {
	case <-s.revoke:
		hash := authn.Hash(s.token)
		if err := stream.Send(&identityv1.WatchRevocationsResponse{
			Position: "2", Revocation: &identityv1.Revocation{TokenId: tokenID, TokenSha256: hash[:]},
		}); err != nil {
			return err
		}
	case <-stream.Context().Done():
	}
	<-stream.Context().Done()
	return status.FromContextError(stream.Context().Err()).Err()
}

func (s *services) ListServers(context.Context, *fleetv1.ListServersRequest) (*fleetv1.ListServersResponse, error) {
	return &fleetv1.ListServersResponse{}, nil
}

// gateway is a running gateway with its services.
type gateway struct {
	*services

	api, admin string // URLs
	file       string // configuration
	listen     string // admin address
	stop       context.CancelFunc
	ended      chan error
}

// start runs a gateway whose breakers trip and probe quickly, with additional configuration.
func start(t *testing.T, more string) *gateway {
	t.Helper()
	return startCounting(t, "", more)
}

// startCounting starts a gateway whose rate_limit has more keys.
func startCounting(t *testing.T, keys, more string) *gateway {
	t.Helper()
	g := &gateway{services: startServices(t), file: filepath.Join(t.TempDir(), "opsgate.yaml"), listen: "127.0.0.1:0"}
	text := fmt.Sprintf(`listen: 127.0.0.1:0
shutdown: {drain_wait: 0s}
rate_limit: {%slimits: [{requests: 1000, per: 1s}]}
upstream_calls: {breaker: {min_requests: 3, open_for: 2s}}
upstreams: {fleet: {address: %q}, monitoring: &others {address: %q}, incident: *others, audit: *others, identity: *others}
`, keys, g.fleet, g.others)
	if err := os.WriteFile(g.file, []byte(text+more), 0o600); err != nil {
		t.Fatal(err)
	}
	g.run(t)
	return g
}

func (g *gateway) run(t *testing.T) {
	t.Helper()
	loaded, err := config.Load(config.Options{
		Path: g.file, Environment: []string{"ADMIN=" + adminToken},
		Overrides: []config.Setting{{Key: "admin.listen", Value: g.listen, From: "--admin-listen"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := wiring.Listen(t.Context(), wiring.Options{Loaded: loaded, Logger: slog.New(slog.DiscardHandler), Build: buildinfo.Info{Version: "1.2.3"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	g.api, g.admin = "http://"+e.Address().String(), "http://"+e.AdminAddress().String()
	g.listen = e.AdminAddress().String() // for a restart
	ended := make(chan error, 1)
	g.stop, g.ended = stop, ended
	go func() {
		ended <- e.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// get sends a request and returns the response.
func (g *gateway) get(t *testing.T, url, token string) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// servers lists the servers of the team.
func (g *gateway) servers(t *testing.T) (code int) {
	t.Helper()
	code, _ = g.get(t, g.api+"/v1/servers", g.token)
	return code
}

// saveArtifact writes a file that go test -artifacts keeps.
func saveArtifact(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}
