package authn_test

import (
	"testing"
	"testing/synctest"
	"time"

	"opsgate/authn"
)

// with returns an authenticator of the same memory with other settings.
func with(t *testing.T, a *authn.Authenticator, service *identity, s authn.Settings) *authn.Authenticator {
	t.Helper()
	other, err := a.With(service, s)
	if err != nil {
		t.Fatal(err)
	}
	return other
}

func TestOtherSettingsHoldAtOnceForWhatIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service), service.know(1)
		shorter := with(t, a, service, authn.Settings{FreshFor: 5 * time.Second, NegativeFor: time.Second})
		longer := with(t, a, service, authn.Settings{FreshFor: time.Minute})
		accepted(t, a, token)
		refused(t, a, mint(2), authn.ErrUnknown)
		for _, step := range []struct {
			after   time.Duration
			by      *authn.Authenticator
			token   string
			lookUps int // from now on
		}{
			{0, shorter, token, 0},
			{0, shorter, mint(2), 0},
			{2 * time.Second, a, mint(2), 0},
			{0, shorter, mint(2), 1},
			{8 * time.Second, a, token, 0},
			{0, longer, token, 0},
			{0, shorter, token, 1}, // after ten seconds in all
			{39 * time.Second, longer, token, 0},
			{0, a, token, 1},
		} {
			time.Sleep(step.after)
			before := service.lookUps()
			_, _ = step.by.Authenticate(t.Context(), step.token, office)
			synctest.Wait()
			if n := service.lookUps() - before; n != step.lookUps {
				t.Errorf("%+v: %d look-ups", step, n)
			}
		}
	})
}

func TestALookUpGoesByTheSettingsOfItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newIdentity(), newIdentity()
		a, token := newAuthenticator(t, first), first.know(1)
		defer second.hold()()
		begin := time.Now()
		refused(t, with(t, a, second, authn.Settings{LookUpTimeout: 7 * time.Second}), token, authn.ErrUnavailable)
		if waited := time.Since(begin); waited != 7*time.Second || first.lookUps() != 0 {
			t.Errorf("waited %v; the client of other settings was asked %d times", waited, first.lookUps())
		}
	})
}

func TestTrustInAnOutageEndsByTheSettingsOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service), service.know(1)
		accepted(t, a, token)
		service.fail(errAway)
		time.Sleep(3 * time.Minute)
		refused(t, with(t, a, service, authn.Settings{StaleFor: 2 * time.Minute}), token, authn.ErrUnavailable)
		accepted(t, a, token)
	})
}

func TestSettingsThatMakeNoSense(t *testing.T) {
	service := newIdentity()
	a := newAuthenticator(t, service)
	if _, err := a.With(service, authn.Settings{FreshFor: time.Hour, StaleFor: time.Minute}); err == nil {
		t.Error("no error")
	}
}

func TestWhatIsRememberedIsToldWithoutACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service), service.know(1)
		tell := func(want string) {
			t.Helper()
			before := service.lookUps()
			record, ok := a.CachedToken(idOf(token))
			if record.Freshness != want || ok != (want != "") || ok && record.Principal.TeamID != teamID || record.Revoked != nil || service.lookUps() != before {
				t.Errorf("got %+v %t, want %q", record, ok, want)
			}
		}
		tell("")
		accepted(t, a, token)
		accepted(t, a, service.know(2))
		tell(authn.CachedFresh)
		time.Sleep(time.Minute)
		tell(authn.CachedDue)
		service.fail(errAway)
		accepted(t, a, token)
		tell(authn.CachedStale)
		time.Sleep(10 * time.Minute)
		tell("")
	})
}
