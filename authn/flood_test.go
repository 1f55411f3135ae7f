package authn_test

import (
	"errors"
	"log/slog"
	randv2 "math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/authn"
)

// flood asks for as many unknown tokens at once, and returns how many were refused unasked. The others are under way.
func flood(t *testing.T, a *authn.Authenticator, tokens int) (shed int) {
	t.Helper()
	var mu sync.Mutex
	for i := range tokens {
		go func() {
			_, err := a.Authenticate(t.Context(), mint(byte(i)))
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, authn.ErrBusy) && errors.Is(err, authn.ErrUnavailable) {
				shed++
			}
		}()
	}
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	return shed
}

// A logText is what a logger has written, which may be read meanwhile.
type logText struct {
	mu   sync.Mutex
	text []byte
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

func TestUnknownTokensDoNotFloodTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		registry := prometheus.NewRegistry()
		var log logText
		a := newAuthenticator(t, service, func(o *authn.Options) {
			o.Registerer, o.Logger = registry, slog.New(slog.NewTextHandler(&log, nil))
		})
		begin := time.Now()
		release := service.hold()
		if shed := flood(t, a, 200); shed != 200-64 || time.Since(begin) != 0 {
			t.Errorf("%d refused after %v, want 136 at once", shed, time.Since(begin))
		}
		if n := service.lookUps(); n != 64 {
			t.Errorf("%d look-ups, want 64", n)
		}
		inFlight := func() float64 { return metric(t, registry, "opsgate_authn_lookups_in_flight", "unknown") }
		if n := inFlight(); n != 64 {
			t.Errorf("%v look-ups counted as under way, want 64", n)
		}
		if n := metric(t, registry, "opsgate_authn_lookups_total", "shed"); n != 136 {
			t.Errorf("%v look-ups counted as shed, want 136", n)
		}
		release()
		synctest.Wait()
		if n := inFlight(); n != 0 {
			t.Errorf("%v look-ups counted as under way after all have ended", n)
		}
		accepted(t, a, service.know(250))

		time.Sleep(5 * time.Second)
		release = service.hold()
		flood(t, a, 65)
		release()
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%d lines in the log while some are refused, want 1:\n%s", n, &log)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[1], "refused=137") {
			t.Errorf("the log tells\n%s", &log)
		}
	})
}

func TestTheBoundIsThatOfTheSettingsOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a := newAuthenticator(t, service, func(o *authn.Options) { o.MaxLookUps = 3 })
		defer service.hold()()
		if shed := flood(t, a, 10); shed != 7 {
			t.Errorf("%d refused, want 7", shed)
		}
		if shed := flood(t, with(t, a, service, authn.Settings{MaxLookUps: 5}), 10); shed != 5 {
			t.Errorf("%d refused, want 5: three were under way already", shed)
		}
	})
}

func TestWhoComesForALookUpUnderWayIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a := newAuthenticator(t, service, func(o *authn.Options) { o.MaxLookUps = 1 })
		token := service.know(1)
		release := service.hold()
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() { accepted(t, a, token) })
		}
		synctest.Wait()
		refused(t, a, mint(2), authn.ErrBusy)
		release()
		callers.Wait()
	})
}

func TestTokensThatWereConfirmedAreLookedUpThroughAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, w := following(t, service)
		inUse, rested := service.know(201), service.know(202)
		accepted(t, a, rested)
		time.Sleep(10 * time.Second)
		accepted(t, a, inUse)
		time.Sleep(21 * time.Second)
		w.heartbeat("1")
		service.revoke(inUse)
		service.revoke(rested)

		release := service.hold()
		if shed := flood(t, a, 100); shed != 36 {
			t.Fatalf("%d refused, want 36", shed)
		}
		accepted(t, a, inUse) // and looked up, without waiting
		told := make(chan error, 1)
		go func() {
			_, err := a.Authenticate(t.Context(), rested)
			told <- err
		}()
		synctest.Wait()
		if n := service.lookUps(); n != 2+64+2 {
			t.Errorf("%d look-ups, want 68: two of them through the flood", n)
		}
		release()
		if err := <-told; !errors.Is(err, authn.ErrRevoked) {
			t.Errorf("the rested token: %v", err)
		}
		synctest.Wait()
		refused(t, a, inUse, authn.ErrRevoked)
	})
}

func TestLookUpsThatNobodyWaitsForAreBoundedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a := newAuthenticator(t, service, func(o *authn.Options) { o.MaxLookUps = 3 })
		all := func() {
			for i := range 10 {
				accepted(t, a, service.know(byte(i)))
			}
		}
		all()
		time.Sleep(21 * time.Second)
		for round, want := range []int{13, 16, 19, 20, 20} {
			release := service.hold()
			all()
			synctest.Wait()
			if n := service.lookUps(); n != want {
				t.Errorf("round %d: %d look-ups, want %d", round, n, want)
			}
			release()
			synctest.Wait()
		}
	})
}

// Each made-up token is sent more often than any confirmed one, and there are ten times as many as there is room for.
func TestMadeUpTokensPushNoConfirmedOneOut(t *testing.T) {
	const room = 200
	service := newIdentity()
	now := time.Now()
	a := newAuthenticator(t, service, func(o *authn.Options) {
		o.MaxEntries = room
		o.Clock = func() time.Time { return now } // however slow the machine is, no trust ends
	})
	random := randv2.NewChaCha8([32]byte{1})
	made := func() string {
		token, err := format.New(random)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	confirmed := make([]string, room*9/10)
	for i := range confirmed {
		confirmed[i] = made()
		service.admit(confirmed[i], "token")
		accepted(t, a, confirmed[i])
	}
	for range 10 * room {
		token := made()
		for range 3 {
			refused(t, a, token, authn.ErrUnknown)
		}
	}
	before := service.lookUps()
	for _, token := range confirmed {
		accepted(t, a, token)
	}
	if n := service.lookUps() - before; n != 0 {
		t.Errorf("%d of %d confirmed tokens were pushed out", n, len(confirmed))
	}
}

func TestATokenThatIsMadeAfterItWasRefusedIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service), mint(1)
		refused(t, a, token, authn.ErrUnknown)
		time.Sleep(5 * time.Second)
		service.know(1)
		for range 3 {
			accepted(t, a, token)
		}
		service.revoke(token)
		time.Sleep(30 * time.Second)
		for range 3 {
			refused(t, a, token, authn.ErrRevoked)
		}
		if n := service.lookUps(); n != 3 {
			t.Errorf("%d look-ups, want 3", n)
		}
	})
}
