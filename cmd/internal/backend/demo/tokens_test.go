package demo_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/demo"
	"opsgate/internal/testkit"
	identityv1 "opsgate/proto/ops/identity/v1"
)

func TestDemoTokensHaveTheirScopesTeamsAndPlans(t *testing.T) {
	s := startSystem(t)
	all := authn.AllScopes()
	want := map[string][]authn.Scope{"full": all, "none": nil, "other_team": all, "no_plan": all}
	for _, scope := range all {
		want[string(scope)] = []authn.Scope{scope}
		if scope != authn.IncidentsWrite {
			want["read"] = append(want["read"], scope)
		}
	}
	for name, scopes := range want {
		if !format().Valid(s.tokens[name]) {
			t.Errorf("%s is malformed", name)
		}
		got, err := s.resolve(name)
		testkit.Must(t, err)
		var carried []authn.Scope
		for _, scope := range got.GetScopes() {
			carried = append(carried, authn.Scope(scope))
		}
		if !slices.Equal(carried, scopes) {
			t.Errorf("%s carries %v, want %v", name, carried, scopes)
		}
		if hasPlan := got.GetPlan() == identityv1.Plan_PLAN_AI; hasPlan != (name != "no_plan") {
			t.Errorf("%s has plan %v", name, got.GetPlan())
		}
		if ours := got.GetTeamId() == s.teamOf("full"); ours != (name != "other_team" && name != "no_plan") {
			t.Errorf("%s acts for team %s", name, got.GetTeamId())
		}
	}
	if _, err := s.resolve("revoked"); status.Code(err) != codes.NotFound || !format().Valid(s.tokens["revoked"]) {
		t.Errorf("revoked: %v", err)
	}
	if len(s.tokens) != len(want)+1 {
		t.Errorf("tokens %v", slices.Sorted(maps.Keys(s.tokens)))
	}
}

func TestTokensAreTheSameAtEveryStart(t *testing.T) {
	one, err := demo.Tokens(format())
	testkit.Must(t, err)
	two, err := demo.Tokens(format())
	testkit.Must(t, err)
	if !slices.Equal(one, two) {
		t.Error("the tokens differ")
	}
	other, err := demo.Tokens(authn.TokenFormat{Prefix: "acme_"})
	testkit.Must(t, err)
	if !strings.HasPrefix(other[0].Text, "acme_live_") {
		t.Error("the prefix is not that of the format")
	}
}

// The second call finds a team.
func TestSeedingAgainChangesNothing(t *testing.T) {
	s := startSystem(t)
	before, err := s.backend.Tokens(t.Context(), 0)
	testkit.Must(t, err)
	testkit.Must(t, demo.Seed(t.Context(), s.backend.Store(), format(), now().Add(time.Hour)))
	after, err := s.backend.Tokens(t.Context(), 0)
	testkit.Must(t, err)
	if len(before) != len(after) || !before[0].CreatedAt.Equal(after[0].CreatedAt) {
		t.Error("the second call changed the data")
	}
}
