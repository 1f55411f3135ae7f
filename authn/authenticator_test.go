package authn_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/authn"
	"opsgate/internal/testkit"
)

func TestATokenIsResolvedToItsPrincipal(t *testing.T) {
	service := newIdentity()
	p := accepted(t, newAuthenticator(t, service), service.issue(1))
	if p.TokenID != idOf(mint(1)) || p.TeamID != teamID || !p.AIPlan || p.LimitClass != "" || !p.ExpiresAt.IsZero() {
		t.Errorf("principal %+v", p)
	}
	if got := p.Scopes.Strings(); !slices.Equal(got, []string{"incidents:write", "servers:read"}) {
		t.Errorf("scopes %q: sorted, and without those that do not exist here", got)
	}
}

func TestAMalformedTokenIsRefusedWithoutACall(t *testing.T) {
	service := newIdentity()
	a := newAuthenticator(t, service)
	for _, token := range []string{"", "nonsense", mint(1)[1:], mint(1) + "x"} {
		refused(t, a, token, authn.ErrMalformed)
		refused(t, a, token, authn.ErrInvalidToken)
	}
	service.mustHaveLookups(t, 0)
}

func TestATokenInUseIsRefreshedInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service), service.issue(1)
		accepted(t, a, token)
		time.Sleep(21 * time.Second)

		release := service.hold()
		begin := time.Now()
		for range 3 {
			accepted(t, a, token)
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("waited %v", waited)
		}
		release()
		synctest.Wait()
		time.Sleep(19 * time.Second) // 40 s after the first lookup, 19 s after the second
		accepted(t, a, token)
		synctest.Wait()
		service.mustHaveLookups(t, 2)
	})
}

func TestARefusalIsCachedForFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service), mint(1)
		for range 5 {
			refused(t, a, token, authn.ErrNotFound)
			refused(t, a, token, authn.ErrInvalidToken)
		}
		service.mustHaveLookups(t, 1)
		service.issue(1)
		refused(t, a, token, authn.ErrNotFound)
		time.Sleep(5 * time.Second)
		for range 3 {
			accepted(t, a, token)
		}
		service.mustHaveLookups(t, 2)
	})
}

// Without synctest: a request may miss the cache and join the lookup after it has completed.
func TestConcurrentRequestsCauseOneLookup(t *testing.T) {
	service := newIdentity()
	a := newAuthenticator(t, service)
	for number := range byte(200) {
		token := service.issue(number)
		start := make(chan struct{})
		var callers sync.WaitGroup
		for range 16 {
			callers.Go(func() {
				<-start
				accepted(t, a, token)
			})
		}
		close(start)
		callers.Wait()
	}
	service.mustHaveLookups(t, 200)
}

func TestAHitAllocatesNothing(t *testing.T) {
	service := newIdentity()
	a, token := newAuthenticator(t, service), service.issue(1)
	accepted(t, a, token)
	if n := testing.AllocsPerRun(1000, func() { accepted(t, a, token) }); n >= 1 {
		t.Errorf("%v allocations a hit", n)
	}
}

func TestACanceledRequestDoesNotFailOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service), service.issue(1)
		release := service.hold()

		ctx, hangUp := context.WithCancel(t.Context())
		gone := authenticate(ctx, a, token) // its lookup is in flight
		var others sync.WaitGroup
		others.Go(func() { accepted(t, a, token) })
		synctest.Wait()

		hangUp()
		if err := <-gone; !errors.Is(err, context.Canceled) || errors.Is(err, authn.ErrUnavailable) {
			t.Errorf("the canceled request returned %v", err)
		}
		release()
		others.Wait()
	})
}

// A request ends at its deadline, and the lookup goes on for the others that wait for it.
func TestARequestWaitsNoLongerThanItsDeadline(t *testing.T) {
	const soon, later = 200 * time.Millisecond, 3 * time.Second
	for _, test := range []struct {
		name    string
		earlier byte          // the token of an earlier request, the same or another; 0 for none
		wait    time.Duration // after it
	}{
		{"its own lookup", 0, 0},
		{"a lookup in flight", 1, 0},
		{"a lookup that was queued until another one timed out", 2, 2*time.Second - soon/2},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := newIdentity()
				a := newAuthenticator(t, service, func(o *authn.Options) { o.MaxLookups = 1 })
				token := service.issue(1)
				release := service.hold()
				if test.earlier > 0 {
					authenticate(t.Context(), a, service.issue(test.earlier))
				}
				time.Sleep(test.wait)
				begin := time.Now()
				patient := authenticate(deadline{t.Context(), begin.Add(later)}, a, token)
				_, err := a.Authenticate(deadline{t.Context(), begin.Add(soon)}, token, office)
				if waited := time.Since(begin); waited != soon || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, authn.ErrUnavailable) {
					t.Errorf("got %v after %v", err, waited)
				}
				release()
				if err := <-patient; err != nil {
					t.Errorf("a request with a later deadline: %v", err)
				}
			})
		})
	}
}

func TestOnlyNotFoundRefusesAToken(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		if code == codes.NotFound {
			continue
		}
		t.Run(code.String(), func(t *testing.T) {
			service := newIdentity()
			a, token := newAuthenticator(t, service), service.issue(1)
			cause := status.Error(code, "out of order")
			service.fail(cause)
			refused(t, a, token, authn.ErrUnavailable)
			refused(t, a, token, cause)
			if _, err := a.Authenticate(t.Context(), token, office); errors.Is(err, authn.ErrInvalidToken) {
				t.Errorf("ErrInvalidToken for a live token: %v", err)
			}
			service.fail(nil)
			accepted(t, a, token)
		})
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	service := newIdentity()
	registry := prometheus.NewRegistry()
	a := newAuthenticator(t, service, func(o *authn.Options) { o.MaxEntries, o.Registerer = 10, registry })
	for number := range byte(200) {
		refused(t, a, mint(number), authn.ErrNotFound)
	}
	testkit.Eventually(t, "there are at most MaxEntries", func() bool { return metric(t, registry, "opsgate_authn_cache_entries") <= 10 })
}

func TestMetricsCountHitsAndMisses(t *testing.T) {
	service := newIdentity()
	registry := prometheus.NewRegistry()
	a := newAuthenticator(t, service, func(o *authn.Options) { o.Registerer = registry })
	token := service.issue(1)
	for range 3 {
		accepted(t, a, token)
		refused(t, a, mint(2), authn.ErrNotFound)
	}
	revoked := service.issue(3)
	service.revoke(revoked)
	refused(t, a, revoked, authn.ErrRevoked)
	service.fail(errUnavailable)
	refused(t, a, mint(4), authn.ErrUnavailable)

	for _, want := range []struct {
		name, label string
		value       float64
	}{
		{"opsgate_authn_cache_requests_total", "hit", 4},
		{"opsgate_authn_cache_requests_total", "miss", 4},
		{"opsgate_authn_cache_requests_total", "stale", 0},
		{"opsgate_authn_lookups_total", "resolved", 1},
		{"opsgate_authn_lookups_total", "unknown", 1},
		{"opsgate_authn_lookups_total", "revoked", 1},
		{"opsgate_authn_lookups_total", "unavailable", 1},
	} {
		if got := metric(t, registry, want.name, want.label); got != want.value {
			t.Errorf("%s %s = %v, want %v", want.name, want.label, got, want.value)
		}
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	taken := prometheus.NewRegistry()
	newAuthenticator(t, newIdentity(), func(o *authn.Options) { o.Registerer = taken })
	for name, change := range map[string]func(*authn.Options){
		"no prefix":                func(o *authn.Options) { o.Format.Prefix = "" },
		"no service":               func(o *authn.Options) { o.Identity = nil },
		"negative freshness":       func(o *authn.Options) { o.FreshFor = -1 },
		"negative lookups":         func(o *authn.Options) { o.MaxLookups = -1 },
		"negative patience":        func(o *authn.Options) { o.LookupTimeout = -1 },
		"stale before it is fresh": func(o *authn.Options) { o.FreshFor, o.StaleFor = time.Hour, time.Minute },
		"negative room":            func(o *authn.Options) { o.MaxEntries = -1 },
		"metrics registered twice": func(o *authn.Options) { o.Registerer = taken },
	} {
		o := authn.Options{Format: format, Identity: newIdentity()}
		change(&o)
		if _, err := authn.New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func BenchmarkAuthenticateHit(b *testing.B) {
	service := newIdentity()
	a, token := newAuthenticator(b, service), service.issue(1)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Authenticate(ctx, token, office); err != nil {
			b.Fatal(err)
		}
	}
}
