package authn_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"opsgate/authn"
)

func TestAllScopesAreThoseOfTheContract(t *testing.T) {
	want := []authn.Scope{
		"audit:read", "commands:read", "incidents:read", "incidents:write", "metrics:read", "monitors:read",
		"scheduled-commands:read", "servers:read", "status-pages:read",
	}
	if got := authn.AllScopes(); !slices.Equal(got, want) {
		t.Errorf("AllScopes() = %v, want %v", got, want)
	}
	if none := (authn.Scopes{}).Strings(); none == nil || len(none) > 0 {
		t.Errorf("the zero set has %#v", none)
	}
}

func TestScopesContainTheirElements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given := rapid.SliceOf(rapid.SampledFrom(append(authn.AllScopes(), "servers:write", ""))).Draw(t, "given")
		scopes := authn.NewScopes(given...)
		var want []string
		for _, s := range append(authn.AllScopes(), "servers:write", "", "SERVERS:READ") {
			has := slices.Contains(given, s) && slices.Contains(authn.AllScopes(), s)
			if scopes.Has(s) != has {
				t.Fatalf("Has(%q) = %v", s, scopes.Has(s))
			}
			if has {
				want = append(want, string(s))
			}
		}
		if got := scopes.Strings(); !slices.Equal(got, want) || got == nil {
			t.Fatalf("Strings() = %#v, want %q", got, want)
		}
	})
}
