package authn

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	identityv1 "opsgate/proto/ops/identity/v1"
)

// Whatever the identity service answers, nobody comes to be without a team, and nobody has a scope that was not given.
func FuzzPrincipal(f *testing.F) {
	for _, answer := range []*identityv1.ResolveTokenResponse{
		{}, {TokenId: "t"}, {TeamId: "t", Scopes: []string{"servers:read"}},
		{TokenId: "a", TeamId: "b", Scopes: []string{"servers:read", "servers:read", "audit:read", "", "no:such"}, Plan: identityv1.Plan_PLAN_AI},
		{TokenId: "a", TeamId: "b", Plan: 9},
	} {
		wire, err := proto.Marshal(answer)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		answer := &identityv1.ResolveTokenResponse{}
		if proto.Unmarshal(wire, answer) != nil {
			return
		}
		p, err := newPrincipal(answer)
		if complete := answer.TokenId != "" && answer.TeamId != ""; (err == nil) != complete || (p != nil) != complete {
			t.Fatalf("%v became %+v, %v", answer, p, err)
		}
		if err != nil {
			return
		}
		if p.TokenID != answer.TokenId || p.TeamID != answer.TeamId || p.AIPlan != (answer.Plan == identityv1.Plan_PLAN_AI) {
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
