package chaostest

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// streamConnected is 1 while a gateway hears of revocations.
const streamConnected = "opsgate_authn_revocation_stream_connected"

// A revocation is a token that is revoked while it is used on two gateways.
type revocation struct {
	answers answers
	at      time.Time // when it was revoked
}

// revokeInUse has it happen, and goes on until both gateways refuse the token.
func revokeInUse(t *testing.T, b *backend, gateways []*gateway, cut func()) (r revocation) {
	t.Helper()
	token := createToken(t, b.data)
	client := newClient(t, nil)
	stop := callers{client: client, token: always(token.Text), rate: 100, number: 16, url: everySomewhere(gateways)}.start(t)
	sleep(t, time.Second/2)
	cut()
	revokeToken(t, b.data, token.ID)
	r.at = time.Now()
	eventually(t, "both refuse the token", func() bool {
		return !slices.ContainsFunc(gateways, func(g *gateway) bool {
			status, _ := me(t.Context(), client, g.url, token.Text)
			return status != http.StatusUnauthorized
		})
	})
	sleep(t, time.Second/2)
	r.answers = stop()
	return r
}

// hold holds that the token was taken until it was revoked, and refused everywhere after a time.
func (r revocation) hold(t *testing.T, what string, bound time.Duration) {
	t.Helper()
	wrong := r.answers.filter(func(a answer) bool { return a.status != http.StatusNotFound && a.status != http.StatusUnauthorized })
	expectNone(t, "18", "answers that were neither 404 nor 401", len(wrong))
	taken := r.answers.admitted()
	if len(taken) == 0 || len(taken.between(time.Time{}, r.at)) == 0 {
		t.Fatal("the token was never taken")
	}
	within(t, "18", what, max(0, taken[len(taken)-1].sent.Sub(r.at)), bound)
}

func TestRevokedTokenIsRefusedOnEveryGateway(t *testing.T) {
	parallel(t)
	b := startBackend(t)
	gateways := []*gateway{launchGateway(t, everyService(b.address), unlimited), launchGateway(t, everyService(b.address), unlimited)}
	for _, g := range gateways {
		g.waitUntilReady(t)
	}
	r := revokeInUse(t, b, gateways, func() {})
	r.hold(t, "until a revoked token was refused on both", time.Second)
}

// Nobody tells the gateways that the token was revoked, but the service does when it is asked.
func TestRevokedTokenIsRefusedWithoutTheStream(t *testing.T) {
	parallel(t)
	b := startBackend(t)
	identity := startRelay(t, b.address, 0)
	behind, config := everyService(b.address), unlimited
	behind.identity = identity.address
	if !*full {
		config += "authn: {fresh_for: 2s}\n"
	}
	gateways := []*gateway{startGateway(t, behind, config), startGateway(t, behind, config)}
	r := revokeInUse(t, b, gateways, func() {
		identity.mute()
		eventually(t, "both know that the stream is cut", func() bool { return sum(t, gateways, streamConnected) == 0 })
	})
	r.hold(t, "the same with the stream of revocations cut", either(30*time.Second, 2*time.Second))
}

// apart are backends on the same data of which one has the identity service alone.
func startWithSeparateIdentity(t *testing.T) (rest, identity *backend) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	rest = startBackendAt(t, "127.0.0.1:0", data)
	identity = startIdentity(t, "127.0.0.1:0", data)
	return rest, identity
}

func startIdentity(t *testing.T, address, data string) *backend {
	t.Helper()
	b := &backend{process: start(t, "opsbackend", "serve", "--listen="+address, "--data-dir="+data, "--services=identity"), data: data}
	serving, err := b.line("serving")
	if err != nil {
		t.Fatal(err)
	}
	b.address = fmt.Sprint(serving["address"])
	return b
}

func TestIdentityIsDown(t *testing.T) {
	parallel(t)
	rest, identity := startWithSeparateIdentity(t)
	behind := everyService(rest.address)
	behind.identity = identity.address
	g := startGateway(t, behind, unlimited+"authn: {fresh_for: 1s}\n")
	client, url := newClient(t, nil), always(somewhere(g.url))
	known := callers{client: client, token: inTurn(tokens(t)["full"].Text, tokens(t)["read"].Text), rate: 200, number: 16, url: url}
	known.during(t, time.Second)
	before := known.during(t, either(3*time.Second, 2*time.Second))

	stopKnown := known.start(t)
	stopStrangers := callers{client: newClient(t, nil), token: invented(t), rate: 50, number: 16, url: url}.start(t)
	sleep(t, time.Second/2)
	gone := time.Now()
	identity.kill(t)
	killed := time.Now()
	sleep(t, either(8*time.Second, 3*time.Second))
	back := time.Now()
	startIdentity(t, identity.address, identity.data)
	wake := eventually(t, "unknown tokens are looked up again", func() bool {
		status, _ := me(t.Context(), client, g.url, invented(t)())
		return status == http.StatusUnauthorized
	})
	eventually(t, "a token that was not known before is taken", func() bool {
		status, _ := me(t.Context(), client, g.url, tokens(t)["audit:read"].Text)
		return status == http.StatusOK
	})
	away, strangers := stopKnown(), stopStrangers()

	noneFailed(t, "19", away)
	usual := before.percentile(.99)
	atMostDoubled(t, "19", fmt.Sprintf("p99 of known tokens without the identity service (%v before)", tenths(usual)),
		away.between(gone, back).percentile(.99), usual)
	meanwhile := strangers.between(killed, back)
	expectNone(t, "19", fmt.Sprintf("answers to %d unknown tokens meanwhile that were not 503 with retry-after", len(meanwhile)),
		len(meanwhile.filter(func(a answer) bool { return a.status != http.StatusServiceUnavailable || a.retryAfter == "" })))
	expectNone(t, "19", "answers to unknown tokens in all that were neither 503 nor 401", len(strangers.filter(func(a answer) bool {
		return a.status != http.StatusServiceUnavailable && a.status != http.StatusUnauthorized
	})))
	within(t, "19", "until unknown tokens were told apart again", wake, 10*time.Second)
}

// Anybody can make up tokens of the right form. The identity service answers slowly, and the gateway asks it for a few at a time.
func TestUnknownTokensDoNotFloodTheIdentityService(t *testing.T) {
	parallel(t)
	const atOnce = 8
	b := startBackend(t)
	identity := startRelay(t, b.address, either(50*time.Millisecond, 200*time.Millisecond))
	behind := everyService(b.address)
	behind.identity = identity.address
	g := startGateway(t, behind, unlimited+fmt.Sprintf("authn: {fresh_for: 1s, max_look_ups: %d}\n", atOnce))
	url := always(somewhere(g.url))
	known := callers{client: newClient(t, nil), token: inTurn(tokens(t)["full"].Text, tokens(t)["read"].Text), rate: 100, number: 16, url: url}
	known.during(t, time.Second)
	before := known.during(t, either(3*time.Second, 2*time.Second))
	stop := callers{client: newClient(t, nil), token: invented(t), rate: either(1000.0, 300), number: mostClients, url: url}.start(t)
	meanwhile := known.during(t, either(8*time.Second, 3*time.Second))
	flood := stop()

	noneFailed(t, "19", meanwhile)
	usual := before.percentile(.99)
	atMostDoubled(t, "19", fmt.Sprintf("p99 of known tokens beside %d unknown ones (%v without)", len(flood), tenths(usual)),
		meanwhile.percentile(.99), usual)
	atMost(t, "19", fmt.Sprintf("look-ups at once, %d for unknown and as many for known tokens", atOnce), int(identity.most.Load()), 2*atOnce)
	shed := flood.filter(func(a answer) bool { return a.status == http.StatusServiceUnavailable && a.retryAfter != "" })
	told := flood.filter(func(a answer) bool { return a.status == http.StatusUnauthorized })
	report(t, "19", "unknown tokens told so, and refused unasked", []int{len(told), len(shed)}, "")
	if len(told) == 0 || len(shed) == 0 || len(told)+len(shed) != len(flood) {
		t.Errorf("of %d unknown tokens %d were told so and %d refused unasked", len(flood), len(told), len(shed))
	}
}
