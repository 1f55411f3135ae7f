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
	"opsgate/ratelimit/redisstore/redistest"
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

// The class that identity names, and its expiry of a token, hold on two gateways that share a Redis,
// also after identity has gone. A reload changes the limits of a cached token at once.
func TestIdentityChoosesClassAndExpiry(t *testing.T) {
	parallel(t)
	const unknown = "opsgate_rate_limit_unknown_class_requests_total"
	config := func(classes string) string {
		return "  limits: [{requests: 3, per: 1h}]\n  classes: {" + classes + "}\n"
	}
	gold := func(requests int) string { return fmt.Sprintf("gold: {limits: [{requests: %d, per: 1h}]}", requests) }
	b, redis, client := startBackend(t), redistest.Start(t), newClient(t, nil)
	s := &system{T: t, gateways: startPair(t, "opsgate", everyService(b.address), inRedis(redis, config(gold(6))))}
	lifetime, began := 15*time.Second, time.Now()
	text := createTokens(t, b.data, 1, classed(lifetime))[0].Text
	latest := time.Now().Add(lifetime + 5*time.Second) // when it is refused
	statuses := func(n int) (list []int) {
		for i := range n {
			list = append(list, me(t.Context(), client, s.gateways[i%2].url, text).status)
		}
		return list
	}
	expect := func(what string, admitted int) {
		t.Helper()
		want := append(slices.Repeat([]int{http.StatusOK}, admitted), http.StatusTooManyRequests, http.StatusTooManyRequests)
		if got := statuses(admitted + 2); !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
	}
	expect("the class of identity", 6)
	b.Kill()
	s.reload(inRedis(redis, config(gold(9))))
	expect("a larger class, without identity", 3)
	s.reload(inRedis(redis, config("silver: {limits: [{requests: 20, per: 1h}]}")))
	expect("a class that is unknown", 0)
	if n := s.sum(unknown); n != 2 {
		t.Errorf("%d requests counted with an unknown class, want 2", n)
	}
	s.reload(inRedis(redis, config(gold(1_000_000))))
	for _, g := range s.gateways {
		var last time.Time // of an admitted request
		testkit.Eventually(t, "the token is refused as expired", func() bool {
			sent := time.Now()
			switch status := me(t.Context(), client, g.url, text).status; status {
			case http.StatusOK:
				last = sent
			case http.StatusUnauthorized:
				return true
			default:
				t.Fatalf("got %d", status)
			}
			return false
		})
		if refused := time.Now(); refused.Before(began.Add(lifetime+5*time.Second)) || last.After(latest) {
			t.Errorf("admitted until %v, refused at %v; its expiry and 5 s are %v", last, refused, latest)
		}
		if n := g.requests(t, "token:expired", "unauthorized", "v1Me", "401"); n == 0 {
			t.Error("no response with the cause token:expired")
		}
	}
}

// administer calls do with the data of a backend that may be running.
func administer(t *testing.T, data string, do func(*service.Backend) error) {
	t.Helper()
	b, err := service.Open(t.Context(), service.Options{DataDir: data})
	testkit.Must(t, err)
	testkit.Must(t, errors.Join(do(b), b.Close()))
}

// createTokens creates n tokens with all scopes in the team of the token "full", which a test may
// change.
func createTokens(t *testing.T, data string, n int, change ...func(*service.NewToken)) []demo.Token {
	t.Helper()
	team, scopes, created := teamOf(t, data), authn.NewScopes(authn.AllScopes()...).Strings(), make([]demo.Token, n)
	administer(t, data, func(b *service.Backend) error {
		for i := range created {
			text, name := unknownTokens(t)(), fmt.Sprintf("chaos-%02d", i)
			token := service.NewToken{TeamID: team, Name: name, SHA256: authn.Hash(text), Scopes: scopes}
			for _, c := range change {
				c(&token)
			}
			stored, err := b.CreateToken(t.Context(), token)
			if err != nil {
				return err
			}
			created[i] = demo.Token{Name: name, ID: stored.ID, Text: text}
		}
		return nil
	})
	return created
}

// classed gives a token the class "gold" and a lifetime.
func classed(lifetime time.Duration) func(*service.NewToken) {
	return func(token *service.NewToken) { token.LimitClass, token.Lifetime = "gold", lifetime }
}

// teamOf returns the team of the token "full".
func teamOf(t *testing.T, data string) (team string) {
	t.Helper()
	administer(t, data, func(b *service.Backend) error {
		all, err := b.Tokens(t.Context(), 0)
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
