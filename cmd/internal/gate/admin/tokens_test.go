package admin

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"opsgate/authn"
	"opsgate/internal/testkit"
	identityv1 "opsgate/proto/ops/identity/v1"
	"opsgate/ratelimit"
)

// numbered is an identity service that numbers the tokens, and has a client's address for their
// requests.
type numbered struct {
	identityv1.IdentityServiceClient

	prefix string // of the names
	class  string // of all tokens
	n      int
}

func (*numbered) ClientAddr() netip.Addr { return netip.IPv6Loopback() }

func (s *numbered) ResolveToken(
	context.Context, *identityv1.ResolveTokenRequest, ...grpc.CallOption,
) (*identityv1.ResolveTokenResponse, error) {
	defer func() { s.n++ }()
	return &identityv1.ResolveTokenResponse{
		TokenId: idOf(s.n), TeamId: idOf(900 + s.n/40), TokenName: fmt.Sprintf("%s %02d", s.prefix, s.n), TeamName: fmt.Sprint("Team ", 9-s.n/40),
		LimitClass: s.class,
	}, nil
}

// cached returns an authenticator that has cached n tokens.
func cached(tb testing.TB, prefix string, n int) *authn.Authenticator {
	tb.Helper()
	return cachedOf(tb, &numbered{prefix: prefix}, n)
}

// cachedOf returns an authenticator that has cached n tokens of the service.
func cachedOf(tb testing.TB, service *numbered, n int) *authn.Authenticator {
	tb.Helper()
	format := authn.TokenFormat{Prefix: "ops_"}
	a, err := authn.New(authn.Options{Format: format, Identity: service})
	testkit.Must(tb, err)
	for range n {
		token, err := format.New(rand.Reader)
		testkit.Must(tb, err)
		_, err = a.Authenticate(tb.Context(), token, service)
		testkit.Must(tb, err)
	}
	return a
}

func TestSearchReturnsTheFirstOfManyTokens(t *testing.T) {
	a := New(options(t)) // 20 of team 7, and 40 each of the teams 8 and 9
	for text, want := range map[string]struct {
		total       int
		first, last string
	}{
		"bot": {100, "Bot 80", "Bot 99"}, "TEAM 8": {40, "Bot 40", "Bot 59"}, "t 8": {10, "Bot 80", "Bot 89"}, idOf(33): {1, "Bot 33", "Bot 33"},
	} {
		got := a.find(text)
		if n := len(got.Tokens); got.Total != want.total || n != min(maxFound, want.total) || got.Tokens[0].TokenName != want.first || got.Tokens[n-1].TokenName != want.last {
			t.Errorf("%s: %+v", text, got)
		}
	}
	if got := a.find("none"); got.Total != 0 || got.Tokens == nil || len(got.Tokens) != 0 {
		t.Errorf("none: %+v", got)
	}
	want := map[string]string{idOf(901): "Team 8", idOf(33): "Bot 33"}
	if got := a.namesOf(idOf(901), idOf(33), idOf(300)); !maps.Equal(got, want) {
		t.Errorf("the names are %q", got)
	}
}

// The state names unknown classes only while requests have them.
func TestUnknownClassesOfCachedTokensAreFound(t *testing.T) {
	for class, want := range map[string][]string{"gold": {"gold"}, "": nil, "default": nil} {
		o := options(t)
		requests := prometheus.NewCounter(prometheus.CounterOpts{Name: metricUnknown})
		registry := prometheus.NewRegistry()
		registry.MustRegister(requests)
		o.Metrics, o.Authenticator = registry, cachedOf(t, &numbered{prefix: "Bot", class: class}, 3)
		a := New(o)
		a.sample()
		if got := a.readState().unknownClasses; got != nil {
			t.Errorf("%q without requests: %q", class, got)
		}
		requests.Inc()
		if got := a.readState().unknownClasses; !slices.Equal(got, want) {
			t.Errorf("%q: %q", class, got)
		}
	}
}

func TestExplanationNamesWhoChoseTheLimits(t *testing.T) {
	o := options(t)
	o.Authenticator = cachedOf(t, &numbered{prefix: "Bot", class: "gold"}, 3)
	def := *o.Active().Policies.All()[0]
	of := func(class string, tokens, teams []string) ratelimit.Assignment {
		return ratelimit.Assignment{Class: class, Key: class, Policy: def.Policy, Tokens: tokens, Teams: teams}
	}
	for want, others := range map[string][]ratelimit.Assignment{
		"the configuration, for the token": {of("partner", []string{idOf(1)}, nil), of("gold", nil, nil)},
		"the configuration, for the team":  {of(ratelimit.ClassTeam, nil, []string{idOf(900)}), of("gold", nil, nil)},
		"identity":                         {of("partner", nil, nil), of("gold", nil, nil)},
		"the configuration, by default: it has no class gold, which identity names": {of("partner", nil, nil)},
	} {
		policies, err := ratelimit.NewPolicies(def, others...)
		testkit.Must(t, err)
		active := o.Active()
		active.Policies = policies
		o.Active = func() Active { return active }
		if got := New(o).limitsOf(t.Context(), Subject{TokenID: idOf(1)}); got.Policy.ChosenBy != want || got.Token.LimitClass != "gold" {
			t.Errorf("%q: %+v", want, got.TokenState)
		}
	}
	if got := New(o).limitsOf(t.Context(), Subject{TokenID: "other"}); got.Policy.ChosenBy != "the configuration, by default" {
		t.Errorf("by default: %+v", got.Policy)
	}
}

func TestSearchPrefersExactNames(t *testing.T) {
	o := options(t)
	o.Authenticator = cached(t, "Bot", 102)
	for text, want := range map[string]int{"BOT 10": 1, "bot 1": 12, "team 8": 40} { // not also "Bot 100" and "Bot 101"
		if got := New(o).find(text); got.Total != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
