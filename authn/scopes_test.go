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
}

func TestAllScopesReturnsACopy(t *testing.T) {
	authn.AllScopes()[0] = "everything"
	if got := authn.AllScopes()[0]; got != authn.AuditRead {
		t.Errorf("a caller changed the scopes of all: %q", got)
	}
}

func TestScopesContainTheirElements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given := rapid.SliceOf(rapid.SampledFrom(append(authn.AllScopes(), "servers:write", ""))).Draw(t, "given")
		scopes := authn.NewScopes(given...)
		var want []string
		for _, s := range authn.AllScopes() {
			if scopes.Has(s) != slices.Contains(given, s) {
				t.Fatalf("Has(%q) = %v", s, scopes.Has(s))
			}
			if slices.Contains(given, s) {
				want = append(want, string(s))
			}
		}
		if got := scopes.Strings(); !slices.Equal(got, want) || got == nil {
			t.Fatalf("Strings() = %#v, want %q", got, want)
		}
	})
}

func TestAScopeThatDoesNotExistIsInNoSet(t *testing.T) {
	all := authn.NewScopes(append(authn.AllScopes(), "servers:write")...)
	for _, s := range []authn.Scope{"servers:write", "", "SERVERS:READ"} {
		if all.Has(s) {
			t.Errorf("Has(%q) = true", s)
		}
	}
}

func TestTheZeroScopesAreEmptyAndNotNil(t *testing.T) {
	var none authn.Scopes
	if got := none.Strings(); got == nil || len(got) != 0 {
		t.Errorf("Strings() = %#v, want an empty slice", got)
	}
	if none.Has(authn.ServersRead) {
		t.Error("the zero set has a scope")
	}
}

func BenchmarkScopesHas(b *testing.B) {
	scopes := authn.NewScopes(authn.AllScopes()...)
	b.ReportAllocs()
	for b.Loop() {
		if !scopes.Has(authn.ScheduledCommandsRead) {
			b.Fatal("missing")
		}
	}
}
