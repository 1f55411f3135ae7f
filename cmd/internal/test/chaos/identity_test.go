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
	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/service"
)

// streamConnected is 1 while the revocation stream is connected.
const streamConnected = "opsgate_authn_revocation_stream_connected"

// revocation has the responses to a token that is revoked while it is used on two gateways.
type revocation struct {
	responses responses
	at        time.Time // of the revocation
}

// revokeInUse revokes a token in use, and continues until both gateways refuse it.
func revokeInUse(t *testing.T, b *backend, gateways []*gateway, cut func()) revocation {
	t.Helper()
	token := createTokens(t, b.data, 1)[0]
	client := newClient(t, nil)
	const revoked = "both refuse the token"
	r := load{gateways: gateways, tokens: map[string]string{"": token.Text}, client: client, rate: 100, clients: 16}.through(t,
		phase{"usual", nil, nil, time.Second / 2},
		phase{"cut", cut, nil, 0},
		phase{revoked, func() { revokeToken(t, b.data, token.ID) }, func() bool {
			return all(gateways, func(g *gateway) bool {
				return me(t.Context(), client, g.url, token.Text).status == http.StatusUnauthorized
			})
		}, time.Second / 2},
	)
	return revocation{r.responses, r.times[revoked].done}
}

// check checks that the token was accepted before the revocation, and refused everywhere after the bound.
func (r revocation) check(t *testing.T, what string, bound time.Duration) {
	t.Helper()
	expectNone(t, "responses other than 404 and 401", len(r.responses.except(http.StatusNotFound, http.StatusUnauthorized)))
	accepted := r.responses.admitted()
	if len(accepted) == 0 || len(accepted.between(time.Time{}, r.at)) == 0 {
		t.Fatal("the token was never accepted")
	}
	within(t, what, max(0, accepted[len(accepted)-1].sent.Sub(r.at)), bound)
}

func TestRevokedTokenIsRefusedOnEveryGateway(t *testing.T) {
	parallel(t)
	b := startBackend(t)
	gateways := startPair(t, "opsgate", everyService(b.address), unlimited)
	r := revokeInUse(t, b, gateways, func() {})
	r.check(t, "until a revoked token was refused on both", time.Second)
}

// The stream does not report the revocation; the lookup does.
func TestRevokedTokenIsRefusedWithoutTheStream(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	b := startBackend(t)
	identity := startRelay(t, b.address, 0)
	behind, config := everyService(b.address), unlimited
	behind.identity = identity.address
	if !*full {
		config += "authn: {fresh_for: 2s}\n"
	}
	gateways := startPair(t, "opsgate", behind, config)
	r := revokeInUse(t, b, gateways, func() {
		identity.mute()
		testkit.Eventually(t, "both streams are disconnected", func() bool { return sum(t, gateways, streamConnected) == 0 })
	})
	r.check(t, "the same without the revocation stream", either(30*time.Second, 2*time.Second))
}

// startIdentity runs a backend with the identity service only.
func startIdentity(t *testing.T, address, data string) *backend {
	t.Helper()
	b := &backend{Process: start(t, "opsbackend", "serve", "--listen="+address, "--data-dir="+data, "--services=identity"), data: data}
	serving, err := b.Record("serving")
	testkit.Must(t, err)
	b.address = fmt.Sprint(serving["address"])
	return b
}

func TestIdentityIsDown(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	rest := startBackend(t)
	identity := startIdentity(t, testkit.FreeAddress(t), rest.data)
	behind := everyService(rest.address)
	behind.identity = identity.address
	g := startGateway(t, behind, unlimited+"authn: {fresh_for: 1s}\n")
	client, only := newClient(t, nil), []*gateway{g}
	known := load{gateways: only, tokens: texts(t, "full", "read"), client: client, rate: 200, clients: 16}
	known.during(t, time.Second)
	before := known.during(t, either(3*time.Second, 2*time.Second))

	const gone, again = "the identity service is killed", "unknown tokens are looked up again"
	stopUnknown := load{gateways: only, token: unknownTokens(t), rate: 50, clients: 16}.start(t)
	during := known.through(t,
		phase{"usual", nil, nil, time.Second / 2},
		phase{gone, identity.Kill, nil, either(8*time.Second, 3*time.Second)},
		phase{again, func() { startIdentity(t, identity.address, identity.data) }, func() bool {
			return me(t.Context(), client, g.url, unknownTokens(t)()).status == http.StatusUnauthorized
		}, 0},
		phase{"a token that was not cached is accepted", nil, func() bool {
			return me(t.Context(), client, g.url, tokens(t)["audit:read"].Text).status == http.StatusOK
		}, 0},
	)
	unknowns := stopUnknown()

	noneFailed(t, during.responses)
	baseline := before.percentile(.99)
	atMostDoubled(t, fmt.Sprintf("p99 of cached tokens without the identity service (%v before)", tenths(baseline)),
		during.all(gone).percentile(.99), baseline)
	meanwhile := unknowns.between(during.times[gone].done, during.began(again))
	expectNone(t, fmt.Sprintf("responses to %d unknown tokens during the outage other than 503 with retry-after", len(meanwhile)),
		len(meanwhile)-len(meanwhile.unavailable()))
	expectNone(t, "responses to unknown tokens other than 503 and 401", len(unknowns.except(http.StatusServiceUnavailable, http.StatusUnauthorized)))
	within(t, "until unknown tokens were looked up again", during.took(again), 10*time.Second)
}

// Clients send many unknown tokens while the identity service is slow. The gateway limits concurrent lookups.
func TestUnknownTokensDoNotFloodTheIdentityService(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	const maxLookups = 8
	b := startBackend(t)
	identity := startRelay(t, b.address, either(50*time.Millisecond, 200*time.Millisecond))
	behind := everyService(b.address)
	behind.identity = identity.address
	g := startGateway(t, behind, unlimited+fmt.Sprintf("authn: {fresh_for: 1s, max_lookups: %d}\n", maxLookups))
	only := []*gateway{g}
	known := load{gateways: only, tokens: texts(t, "full", "read"), client: newClient(t, nil), rate: 100, clients: 16}
	known.during(t, time.Second)
	before := known.during(t, either(3*time.Second, 2*time.Second))
	stop := load{gateways: only, token: unknownTokens(t), rate: either(1000.0, 300), clients: mostClients}.start(t)
	meanwhile := known.during(t, either(8*time.Second, 3*time.Second))
	flood := stop()

	noneFailed(t, meanwhile)
	baseline := before.percentile(.99)
	atMostDoubled(t, fmt.Sprintf("p99 of cached tokens with %d unknown ones (%v without)", len(flood), tenths(baseline)),
		meanwhile.percentile(.99), baseline)
	atMost(t, fmt.Sprintf("concurrent lookups, %d for unknown and as many for cached tokens", maxLookups), int(identity.maxInFlight.Load()), 2*maxLookups)
	shed := flood.unavailable()
	rejected := flood.filter(func(a response) bool { return a.status == http.StatusUnauthorized })
	report(t, "unknown tokens with 401, and with 503 without a lookup", []int{len(rejected), len(shed)}, "")
	if len(rejected) == 0 || len(shed) == 0 || len(rejected)+len(shed) != len(flood) {
		t.Errorf("of %d unknown tokens %d got 401 and %d got 503", len(flood), len(rejected), len(shed))
	}
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
