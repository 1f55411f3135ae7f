package authn_test

import (
	"testing"
	"testing/synctest"
	"time"

	"opsgate/authn"
)

func TestAppliedSettingsHoldForCachedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service), service.issue(1)
		accepted(t, a, token)
		for _, step := range []struct {
			after    time.Duration
			freshFor time.Duration
			lookups  int
		}{
			{10 * time.Second, 30 * time.Second, 0},
			{0, time.Minute, 0},
			{0, 5 * time.Second, 1},
			{39 * time.Second, time.Minute, 0},
			{0, 30 * time.Second, 1},
		} {
			time.Sleep(step.after)
			a.Apply(authn.Settings{FreshFor: step.freshFor})
			before := service.lookups()
			accepted(t, a, token)
			synctest.Wait()
			if n := service.lookups() - before; n != step.lookups {
				t.Errorf("%+v: %d lookups", step, n)
			}
		}
	})
}

func TestALookupKeepsTheTimeoutOfItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service, func(o *authn.Options) { o.LookupTimeout = 7 * time.Second }), service.issue(1)
		defer service.hold()()
		time.AfterFunc(time.Second, func() { a.Apply(authn.Settings{LookupTimeout: time.Hour}) })
		begin := time.Now()
		refused(t, a, token, authn.ErrUnavailable)
		if waited := time.Since(begin); waited != 7*time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestAppliedSettingsHoldInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service), service.issue(1)
		accepted(t, a, token)
		service.fail(errUnavailable)
		time.Sleep(3 * time.Minute)
		a.Apply(authn.Settings{StaleFor: 2 * time.Minute})
		refused(t, a, token, authn.ErrUnavailable)
		a.Apply(authn.Settings{})
		accepted(t, a, token)
	})
}

// An operator raises StaleFor in an outage: tokens in use are accepted for the new time.
func TestALongerStaleForAppliesToTokensInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service), service.issue(1)
		accepted(t, a, token)
		service.fail(errUnavailable)
		a.Apply(authn.Settings{StaleFor: time.Hour})
		for range 59 {
			time.Sleep(time.Minute)
			accepted(t, a, token)
		}
		if _, acceptedFor := a.LookupsFailing(); acceptedFor != time.Minute {
			t.Errorf("tokens are accepted for %v more, want 1m", acceptedFor)
		}
		time.Sleep(time.Minute)
		refused(t, a, token, authn.ErrUnavailable)
	})
}

func TestCachedTokenCallsNoService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service), service.issue(1)
		mustBe := func(want string) {
			t.Helper()
			before := service.lookups()
			record, ok := a.CachedToken(idOf(token))
			if record.Freshness != want || ok != (want != "") || ok && record.Principal.TeamID != teamID || record.Refused != nil || service.lookups() != before {
				t.Errorf("got %+v %t, want %q", record, ok, want)
			}
		}
		mustBe("")
		accepted(t, a, token)
		accepted(t, a, service.issue(2))
		mustBe("fresh")
		time.Sleep(time.Minute)
		mustBe("due")
		service.fail(errUnavailable)
		accepted(t, a, token)
		mustBe("stale")
		time.Sleep(10 * time.Minute)
		mustBe("")
	})
}
