package authn_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/authn"
)

func TestKnownTokensSurviveAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		registry := prometheus.NewRegistry()
		a := newAuthenticator(t, service, func(o *authn.Options) { o.Registerer = registry })
		token, other := service.issue(1), service.issue(2)
		accepted(t, a, token)
		service.fail(errUnavailable)

		failing := func(wantFor, wantAccepted time.Duration) {
			t.Helper()
			if gotFor, got := a.LookupsFailing(); gotFor != wantFor || got != wantAccepted {
				t.Errorf("lookups fail for %v, tokens are accepted for %v; want %v, %v", gotFor, got, wantFor, wantAccepted)
			}
		}
		refused(t, a, other, authn.ErrUnavailable) // not cached
		failing(0, 0)                              // a single failure
		for n := range 9 {
			time.Sleep(time.Minute)
			accepted(t, a, token)
			failing(time.Duration(n+1)*time.Minute, time.Duration(9-n)*time.Minute)
		}
		if n := metric(t, registry, "opsgate_authn_cache_requests_total", "stale"); n != 9 {
			t.Errorf("%v requests counted as stale, want 9", n)
		}
		time.Sleep(time.Minute)
		refused(t, a, token, authn.ErrUnavailable) // after ten minutes
		failing(10*time.Minute, 0)
		time.Sleep(time.Minute + 1)
		failing(0, 0) // there was no lookup for a minute
		refused(t, a, token, authn.ErrUnavailable)
		failing(11*time.Minute+1, 0)

		service.fail(nil)
		accepted(t, a, token)
		failing(0, 0)
		accepted(t, a, other)
	})
}

func TestAHangingLookupTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service), service.issue(1)
		defer service.hold()()
		begin := time.Now()
		refused(t, a, token, authn.ErrUnavailable)
		if waited := time.Since(begin); waited != 2*time.Second {
			t.Errorf("waited %v, want 2s", waited)
		}
	})
}

func TestTheEndOfAnOutageIsDetectedWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service), service.issue(1)
		accepted(t, a, token)
		service.fail(errUnavailable)
		time.Sleep(time.Minute)
		accepted(t, a, token)

		service.fail(nil)
		service.revoke(token)
		time.Sleep(time.Second)
		accepted(t, a, token) // stale, and refreshed in the background
		synctest.Wait()
		refused(t, a, token, authn.ErrRevoked)
	})
}
