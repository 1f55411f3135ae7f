package authn_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"opsgate/authn"
)

func TestKnownTokensSurviveAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		registry := prometheus.NewRegistry()
		a := newAuthenticator(t, service, func(o *authn.Options) { o.Registerer = registry })
		token, other := service.know(1), service.know(2)
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
		failing(0, 0) // unknown: there was no lookup for a minute
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
		a, token := newAuthenticator(t, service), service.know(1)
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
		a, token := newAuthenticator(t, service), service.know(1)
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

// The invariants hold at each step of a random schedule of requests, waits, revocations and outages, without the stream.
func TestStaleTokensAreAcceptedForALimitedTime(t *testing.T) {
	const (
		freshFor = 30 * time.Second
		staleFor = 10 * time.Minute
		grace    = 5 * time.Second // after an outage
	)
	rapid.Check(t, func(rt *rapid.T) {
		service := newIdentity()
		var clock atomic.Int64 // the cache reads it in the background too
		clock.Store(1_800_000_000)
		a := newAuthenticator(t, service, func(o *authn.Options) {
			o.Clock = func() time.Time { return time.Unix(clock.Load(), 0) }
		})
		token := service.know(1)
		var revokedAt, downUntil int64 // 0: never
		down := false
		since := func(event int64) time.Duration { return time.Duration(clock.Load()-event) * time.Second }
		rt.Repeat(map[string]func(*rapid.T){
			"wait": func(t *rapid.T) {
				clock.Add(rapid.Int64Range(1, 200).Draw(t, "seconds"))
			},
			"revoke": func(*rapid.T) {
				if revokedAt == 0 {
					service.revoke(token)
					revokedAt = clock.Load()
				}
			},
			"fail": func(*rapid.T) {
				service.fail(errUnavailable)
				down = true
			},
			"mend": func(*rapid.T) {
				if down {
					down, downUntil = false, clock.Load()
				}
				service.fail(nil)
			},
			"request": func(t *rapid.T) {
				p, err := a.Authenticate(t.Context(), token, office)
				a.Settle()
				revoked := revokedAt != 0
				switch {
				case err == nil && p == nil:
					t.Fatal("neither a principal nor an error")
				case err != nil && !down && !revoked:
					t.Fatalf("a live token is refused: %v", err)
				case err != nil && !revoked && !errors.Is(err, authn.ErrUnavailable):
					t.Fatalf("ErrInvalidToken for a live token: %v", err)
				case err == nil && revoked && down && since(revokedAt) >= staleFor:
					t.Fatalf("accepted %v after its revocation", since(revokedAt))
				case err == nil && revoked && !down && since(revokedAt) >= freshFor && since(downUntil) >= grace:
					t.Fatalf("accepted %v after its revocation, %v after the outage", since(revokedAt), since(downUntil))
				}
			},
		})
	})
}
