package service_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/cmd/internal/backend/service"
	"opsgate/internal/testkit"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// token stores a token of the team.
func (s *system) token(t team, text string, scopes ...string) service.Token {
	s.t.Helper()
	kept, err := s.backend.CreateToken(s.t.Context(), service.NewToken{
		TeamID: t.id, Name: text, SHA256: sha256.Sum256([]byte(text)), Scopes: scopes,
	})
	testkit.Must(s.t, err)
	return kept
}

func (s *system) resolve(text string) (*identityv1.ResolveTokenResponse, error) {
	hash := sha256.Sum256([]byte(text))
	return s.identity.ResolveToken(s.t.Context(), &identityv1.ResolveTokenRequest{TokenSha256: hash[:]})
}

func TestTokenIsResolvedByItsHash(t *testing.T) {
	s, own := startTeam(t)
	kept := s.token(own, "one", "servers:read", "audit:read", "servers:read")
	got, err := s.resolve("one")
	testkit.Must(t, err)
	if got.GetTokenId() != kept.ID || got.GetTeamId() != own.id || got.GetPlan() != identityv1.Plan_PLAN_AI ||
		!slices.Equal(got.GetScopes(), []string{"audit:read", "servers:read"}) || got.GetTokenName() != "one" || got.GetTeamName() != "harbour" {
		t.Errorf("resolved to %v", got)
	}
	basic, err := s.backend.CreateTeam(t.Context(), "breakwater", service.PlanBasic)
	testkit.Must(t, err)
	s.token(team{id: basic.ID}, "two")
	if got, err = s.resolve("two"); err != nil || got.GetPlan() != identityv1.Plan_PLAN_BASIC || len(got.GetScopes()) != 0 {
		t.Errorf("resolved to %v, %v", got, err)
	}
}

func TestClassIsThatOfTheTokenElseOfItsTeam(t *testing.T) {
	s, own := startTeam(t)
	s.exec("UPDATE teams SET limit_class = 'silver'")
	for class, want := range map[string]string{"": "silver", "gold": "gold"} {
		_, err := s.backend.CreateToken(t.Context(), service.NewToken{TeamID: own.id, SHA256: sha256.Sum256([]byte("of " + class)), LimitClass: class})
		testkit.Must(t, err)
		if got, err := s.resolve("of " + class); err != nil || got.GetLimitClass() != want || got.ExpiresAt != nil {
			t.Errorf("%q: resolved to %v, %v", class, got, err)
		}
	}
	for _, class := range []string{"a class", "größer", strings.Repeat("c", 65)} {
		if _, err := s.backend.CreateToken(t.Context(), service.NewToken{TeamID: own.id, SHA256: sha256.Sum256([]byte(class)), LimitClass: class}); err == nil {
			t.Errorf("%q is accepted", class)
		}
	}
}

func TestExpiredTokenIsUnknown(t *testing.T) {
	s, own := startTeam(t)
	_, err := s.backend.CreateToken(t.Context(), service.NewToken{TeamID: own.id, SHA256: sha256.Sum256([]byte("one")), Lifetime: time.Hour})
	testkit.Must(t, err)
	end := s.clock.Now().Add(time.Hour)
	if got, err := s.resolve("one"); err != nil || !got.GetExpiresAt().AsTime().Equal(end) {
		t.Errorf("resolved to %v, %v; want the expiry %v", got, err, end)
	}
	s.clock.Move(time.Hour - 1)
	_, err = s.resolve("one")
	testkit.Must(t, err)
	s.clock.Move(1)
	_, err = s.resolve("one")
	mustBe(t, err, codes.NotFound)
	if text := fmt.Sprint(status.Convert(err).Details()); !strings.Contains(text, "TOKEN_UNKNOWN") {
		t.Errorf("refused with %s", text)
	}
}

// watch opens a stream, and returns its first position and a function that returns the next
// revocation.
func (s *system) watch(ctx context.Context, after string) (next func() *identityv1.WatchRevocationsResponse, started string) {
	s.t.Helper()
	stream, err := s.identity.WatchRevocations(ctx, &identityv1.WatchRevocationsRequest{AfterPosition: after})
	testkit.Must(s.t, err)
	first, err := stream.Recv()
	testkit.Must(s.t, err)
	if first.Revocation != nil || first.GetPosition() == "" {
		s.t.Fatalf("the first message is %v", first)
	}
	return func() *identityv1.WatchRevocationsResponse {
		s.t.Helper()
		for {
			message, err := stream.Recv()
			testkit.Must(s.t, err)
			if message.Revocation != nil {
				return message
			}
		}
	}, first.GetPosition()
}

// A client that reconnects gets exactly the revocations that it missed, also after a restart of the
// service.
func TestStreamResumesAtAPosition(t *testing.T) {
	s, own := startTeam(t)
	tokens := []service.Token{s.token(own, "a"), s.token(own, "b"), s.token(own, "c")}
	ctx, cancel := context.WithCancel(t.Context())
	next, _ := s.watch(ctx, "")
	_, err := s.backend.RevokeToken(t.Context(), tokens[0].ID)
	testkit.Must(t, err)
	position := next().GetPosition()
	cancel()
	for _, token := range tokens { // the first one again: no second revocation
		_, err := s.backend.RevokeToken(t.Context(), token.ID)
		testkit.Must(t, err)
	}
	s = s.restart()
	next, started := s.watch(t.Context(), position)
	if started != position {
		t.Errorf("started at %s, want %s", started, position)
	}
	for _, token := range tokens[1:] {
		if got := next().GetRevocation().GetTokenId(); got != token.ID {
			t.Errorf("revoked %s, want %s", got, token.ID)
		}
	}
}

func TestStreamEndsWithTheService(t *testing.T) {
	s := startSystem(t)
	stream, err := s.identity.WatchRevocations(t.Context(), &identityv1.WatchRevocationsRequest{})
	testkit.Must(t, err)
	_, err = stream.Recv()
	testkit.Must(t, err)
	s.stop()
	for err == nil {
		_, err = stream.Recv()
	}
	mustBe(t, err, codes.Unavailable)
}
