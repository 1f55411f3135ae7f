package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/service"
	"opsgate/internal/testkit"
)

// A token that is used on two gateways is revoked by another process.
func TestRevokedTokenIsRefusedOnEveryGateway(t *testing.T) {
	parallel(t)
	b := startBackend(t)
	gateways := startPair(t, "opsgate", everyService(b.address), unlimited)
	token, client := createTokens(t, b.data, 1)[0], newClient(t, nil)
	const revoked = "both refuse the token"
	r := load{gateways: gateways, tokens: map[string]string{"": token.Text}, client: client, rate: 100, clients: 16}.through(t,
		phase{"usual", nil, nil, time.Second / 2},
		phase{revoked, func() { revokeToken(t, b.data, token.ID) }, func() bool {
			return all(gateways, func(g *gateway) bool {
				return me(t.Context(), client, g.url, token.Text).status == http.StatusUnauthorized
			})
		}, time.Second / 2},
	)
	expectNone(t, "responses other than 404 and 401", len(r.except(http.StatusNotFound, http.StatusUnauthorized)))
	accepted, at := r.admitted(), r.times[revoked].done
	if len(accepted.between(time.Time{}, at)) == 0 {
		t.Fatal("the token was never accepted")
	}
	within(t, "until a revoked token was refused on both", max(0, accepted[len(accepted)-1].sent.Sub(at)), time.Second)
}

// administer calls do with the data of a backend that may be running.
func administer(t *testing.T, data string, do func(*service.Backend) error) {
	t.Helper()
	b, err := service.Open(t.Context(), service.Options{DataDir: data})
	testkit.Must(t, err)
	testkit.Must(t, errors.Join(do(b), b.Close()))
}

// createTokens creates n tokens with all scopes in the team of the token "full".
func createTokens(t *testing.T, data string, n int) []demo.Token {
	t.Helper()
	team, scopes, created := teamOf(t, data), authn.NewScopes(authn.AllScopes()...).Strings(), make([]demo.Token, n)
	administer(t, data, func(b *service.Backend) error {
		for i := range created {
			text, name := unknownTokens(t)(), fmt.Sprintf("chaos-%02d", i)
			token, err := b.CreateToken(t.Context(), service.NewToken{TeamID: team, Name: name, SHA256: authn.Hash(text), Scopes: scopes})
			if err != nil {
				return err
			}
			created[i] = demo.Token{Name: name, ID: token.ID, Text: text}
		}
		return nil
	})
	return created
}

// teamOf returns the team of the token "full".
func teamOf(t *testing.T, data string) (team string) {
	t.Helper()
	administer(t, data, func(b *service.Backend) error {
		all, err := b.Tokens(t.Context())
		if err == nil {
			id := tokens(t)["full"].ID
			team = all[slices.IndexFunc(all, func(token service.Token) bool { return token.ID == id })].TeamID
		}
		return err
	})
	return team
}

func revokeToken(t *testing.T, data, id string) {
	t.Helper()
	administer(t, data, func(b *service.Backend) error {
		_, err := b.RevokeToken(t.Context(), id)
		return err
	})
}

// me calls /v1/me.
func me(ctx context.Context, client *http.Client, base, token string) response {
	return fetch(ctx, client, base+"/v1/me", token)
}
