package status

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/grpc"

	"opsgate/authn"
	"opsgate/backendclient/testkit"
	identityv1 "opsgate/proto/ops/identity/v1"
	"opsgate/ratelimit/heavyhitters"
)

// numbered is an identity service that numbers the tokens, and has a client's address for their requests.
type numbered struct {
	identityv1.IdentityServiceClient

	prefix string // of the names
	n      int
}

func (*numbered) ClientAddr() netip.Addr { return netip.IPv6Loopback() }

func (s *numbered) ResolveToken(
	context.Context, *identityv1.ResolveTokenRequest, ...grpc.CallOption,
) (*identityv1.ResolveTokenResponse, error) {
	defer func() { s.n++ }()
	return &identityv1.ResolveTokenResponse{
		TokenId: idOf(s.n), TeamId: idOf(900 + s.n/40), TokenName: fmt.Sprintf("%s %02d", s.prefix, s.n), TeamName: fmt.Sprint("Team ", 9-s.n/40),
	}, nil
}

func idOf(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", n) }

// cached returns an authenticator that has cached n tokens.
func cached(t *testing.T, prefix string, n int) *authn.Authenticator {
	t.Helper()
	service, format := &numbered{prefix: prefix}, authn.TokenFormat{Prefix: "ops_"}
	a, err := authn.New(authn.Options{Format: format, Identity: service})
	testkit.Must(t, err)
	for range n {
		token, err := format.New(rand.Reader)
		testkit.Must(t, err)
		_, err = a.Authenticate(t.Context(), token, service)
		testkit.Must(t, err)
	}
	return a
}

func TestSearchReturnsTheFirstOfManyTokens(t *testing.T) {
	i := &Inspector{options: Options{Authenticator: cached(t, "Bot", 100)}} // 20 of team 7, and 40 each of the teams 8 and 9
	for text, want := range map[string]struct {
		total       int
		first, last string
	}{
		"bot": {100, "Bot 80", "Bot 99"}, "TEAM 8": {40, "Bot 40", "Bot 59"}, "t 8": {10, "Bot 80", "Bot 89"}, idOf(33): {1, "Bot 33", "Bot 33"},
	} {
		got := i.FindTokens(text)
		if n := len(got.Tokens); got.Total != want.total || n != min(maxFound, want.total) || got.Tokens[0].TokenName != want.first || got.Tokens[n-1].TokenName != want.last {
			t.Errorf("%s: %+v", text, got)
		}
	}
	if got := i.FindTokens("none"); got.Total != 0 || got.Tokens == nil || len(got.Tokens) != 0 {
		t.Errorf("none: %+v", got)
	}
	want := map[string]string{idOf(901): "Team 8", idOf(33): "Bot 33"}
	if got := i.Names([]string{idOf(901), idOf(33), idOf(300)}); !maps.Equal(got, want) {
		t.Errorf("the names are %q", got)
	}
}

func TestNamesOfBusyTokensAreReadAgain(t *testing.T) {
	before, renamed, noon := cached(t, "Old", 2), cached(t, "New", 2), time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		after  time.Duration
		second string // token of the second reading, besides the first
		want   string
	}{
		"the same tokens":    {namesKeptFor - 1, idOf(7), "Old 00"},
		"after a while":      {namesKeptFor, idOf(7), "New 00"},
		"another token":      {0, idOf(1), "New 00"},
		"clock was set back": {-1, idOf(7), "New 00"},
	} {
		var b busyNames
		b.get([]heavyhitters.Entry{{TokenID: idOf(0)}, {TokenID: idOf(7)}}, noon, before) // the second is not cached
		got := b.get([]heavyhitters.Entry{{TokenID: idOf(0)}, {TokenID: test.second}}, noon.Add(test.after), renamed)
		if got[idOf(0)] != test.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
