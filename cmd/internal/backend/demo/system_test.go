package demo_test

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/service"
	"opsgate/internal/testkit"
	identityv1 "opsgate/proto/ops/identity/v1"
)

func format() authn.TokenFormat { return authn.TokenFormat{Prefix: "ops_"} }

func now() time.Time { return time.Date(2026, 3, 14, 15, 9, 26, 535_000_000, time.UTC) }

// A system serves the demo data.
type system struct {
	t       *testing.T
	backend *service.Backend
	tokens  map[string]string
	conn    *grpc.ClientConn
}

func startSystem(t *testing.T) *system {
	t.Helper()
	return startSystemAt(t, now())
}

// startSystemAt serves the demo data of now, at another time. The options are those of the
// connection of the clients.
func startSystemAt(t *testing.T, at time.Time, options ...grpc.DialOption) *system {
	t.Helper()
	clock := func() time.Time { return at }
	backend, err := service.Open(t.Context(), service.Options{DataDir: t.TempDir(), Clock: clock})
	testkit.Must(t, err)
	testkit.Must(t, demo.Seed(t.Context(), backend.Store(), format(), now()))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- backend.Serve(ctx, listener) }()
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	conn, err := grpc.NewClient(listener.Addr().String(), options...)
	testkit.Must(t, err)
	t.Cleanup(func() {
		testkit.Must(t, conn.Close())
		stop()
		testkit.Must(t, <-done)
		testkit.Must(t, backend.Close())
	})
	s := &system{t: t, backend: backend, tokens: map[string]string{}, conn: conn}
	tokens, err := demo.Tokens(format())
	testkit.Must(t, err)
	for _, token := range tokens {
		s.tokens[token.Name] = token.Text
	}
	return s
}

func (s *system) resolve(name string) (*identityv1.ResolveTokenResponse, error) {
	hash := authn.Hash(s.tokens[name])
	return identityv1.NewIdentityServiceClient(s.conn).ResolveToken(s.t.Context(), &identityv1.ResolveTokenRequest{TokenSha256: hash[:]})
}

// teamOf returns the team that a demo token acts for.
func (s *system) teamOf(name string) string {
	s.t.Helper()
	response, err := s.resolve(name)
	testkit.Must(s.t, err)
	return response.GetTeamId()
}
