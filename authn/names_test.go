package authn_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"testing/synctest"

	"opsgate/authn"
	"opsgate/internal/testkit"
	identityv1 "opsgate/proto/ops/identity/v1"
)

func TestNamesAreBoundedAndPrintable(t *testing.T) {
	long := strings.Repeat("n", 99)
	for name, test := range map[string]struct{ token, team, wantToken, wantTeam string }{
		"absent":             {},
		"plain":              {"CI of Müller & Söhne", "日本 <b>", "CI of Müller & Söhne", "日本 <b>"},
		"blank":              {" \t\n", "  harbour ", "", "harbour"},
		"100 characters":     {long + "é", "", long + "é", ""},
		"more":               {long + "é!", strings.Repeat("x", 1<<20), long + "é", strings.Repeat("x", 100)},
		"control characters": {"a\x1b[31mb\r\n\u0085c\x00", "'", `a\x1b[31mb\r\n\u0085c\x00`, "'"},
		"bidirectional":      {"a\u202egnp.exe", "\u2066x\u200f\U000e0041", `a\u202egnp.exe`, `\u2066x\u200f\U000e0041`},
		"invisible":          {"a\u3164\u115f", "\u2800b\ufe0f\u034f", `a\u3164\u115f`, `\u2800b\ufe0f\u034f`},
		"no half of escapes": {long + "\u202e", strings.Repeat("\u202e", 50), long, strings.Repeat(`\u202e`, 16)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := newIdentity()
				a, w := following(t, service)
				token := service.issue(1)
				answer := service.tokens[authn.Hash(token)]
				answer.TokenName, answer.TeamName = test.token, test.team
				p := accepted(t, a, token)
				if p.TokenName != test.wantToken || p.TeamName() != test.wantTeam {
					t.Errorf("got %q, %q", p.TokenName, p.TeamName())
				}
				want := authn.Identity{TokenID: idOf(token), TeamID: teamID, TokenName: test.wantToken, TeamName: test.wantTeam}
				if got, _ := a.CachedToken(idOf(token)); got.Identity() != want {
					t.Errorf("cached: %+v", got.Identity())
				}
				w.revocation("2", token)
				synctest.Wait()
				refused(t, a, token, authn.ErrRevoked)
				if got, _ := a.CachedToken(idOf(token)); got.Refused == nil || got.Identity() != want {
					t.Errorf("revoked: %+v", got.Identity())
				}
			})
		})
	}
}

// The cache has room for as many names as tokens.
func BenchmarkScanOfCachedTokens(b *testing.B) {
	service := newIdentity()
	a := newAuthenticator(b, service)
	for range 100_000 {
		token, err := format.New(rand.Reader)
		testkit.Must(b, err)
		service.tokens[authn.Hash(token)] = &identityv1.ResolveTokenResponse{TokenId: idOf(token), TeamId: teamID}
		accepted(b, a, token)
	}
	for b.Loop() {
		n := 0
		for t := range a.CachedTokens() {
			if t.Identity().TokenID != "" {
				n++
			}
		}
	}
}
