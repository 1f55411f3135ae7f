package authn

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"opsgate/internal/testkit"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// For any response, a principal has a token id, a team id and only scopes of the response.
func FuzzPrincipal(f *testing.F) {
	const token, team = "0b8e3a0e-7c5e-4f57-9d0c-0d7f2a8f2a11", "5D6F0F8A-2F5B-4B52-8A41-8F8B4A1F7C01"
	for _, answer := range []*identityv1.ResolveTokenResponse{
		{}, {TokenId: token}, {TeamId: team, Scopes: []string{"servers:read"}}, {TokenId: token, TeamId: "{" + team + "}"},
		{TokenId: token, TeamId: team, Scopes: []string{"servers:read", "servers:read", "audit:read", "", "no:such"}, Plan: identityv1.Plan_PLAN_AI},
		{TokenId: team, TeamId: token, Plan: 9},
	} {
		wire, err := proto.Marshal(answer)
		testkit.Must(f, err)
		f.Add(wire)
	}
	canonical := regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	f.Fuzz(func(t *testing.T, wire []byte) {
		answer := &identityv1.ResolveTokenResponse{}
		if proto.Unmarshal(wire, answer) != nil {
			return
		}
		p, err := newPrincipal(answer)
		valid := canonical.MatchString(answer.TokenId) && canonical.MatchString(answer.TeamId)
		if (err == nil) != valid || (p != nil) != valid || err != nil && !errors.Is(err, ErrContract) {
			t.Fatalf("%v became %+v, %v", answer, p, err)
		}
		if err != nil {
			return
		}
		if p.TokenID != strings.ToLower(answer.TokenId) || p.TeamID != strings.ToLower(answer.TeamId) ||
			p.AIPlan != (answer.Plan == identityv1.Plan_PLAN_AI) {
			t.Errorf("%v became %+v", answer, p)
		}
		for _, scope := range AllScopes() {
			if given := slices.Contains(answer.Scopes, string(scope)); p.Scopes.Has(scope) != given || slices.Contains(p.Scopes.Strings(), string(scope)) != given {
				t.Errorf("%v has %v", answer, p.Scopes.Strings())
			}
		}
		if names := p.Scopes.Strings(); !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) || p.Scopes.Has("") {
			t.Errorf("scopes %q", names)
		}
	})
}
