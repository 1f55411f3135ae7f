package authn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/authn"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// follow runs the Authenticator until the test ends.
func follow(t *testing.T, a *authn.Authenticator) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// following returns an Authenticator whose stream is connected, at position 1.
func following(t *testing.T, service *identity, change ...func(*authn.Options)) (*authn.Authenticator, *watch) {
	t.Helper()
	a := newAuthenticator(t, service, change...)
	follow(t, a)
	w := <-service.watches
	w.heartbeat("1")
	synctest.Wait()
	return a, w
}

// authenticate starts a request and waits until it is blocked or done. The channel receives its
// error.
func authenticate(ctx context.Context, a *authn.Authenticator, token string) <-chan error {
	result := make(chan error, 1)
	go func() {
		_, err := a.Authenticate(ctx, token, office)
		result <- err
	}()
	synctest.Wait()
	return result
}

const connected = "opsgate_authn_revocation_stream_connected"

func TestARevokedTokenIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		registry := prometheus.NewRegistry()
		a, w := following(t, service, func(o *authn.Options) { o.Registerer = registry })
		token, other := service.issue(1), service.issue(2)
		accepted(t, a, token)
		accepted(t, a, other)

		w.revocation("2", token)
		w.revocation("3", mint(3)) // not cached
		synctest.Wait()
		want := authn.Identity{TokenID: idOf(token), TeamID: teamID}
		mustBeCached(t, a, want)
		if got := idsOf(t, a, token); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		accepted(t, a, other)
		service.mustHaveLookups(t, 2)
		if n := metric(t, registry, "opsgate_authn_revocations_total"); n != 2 {
			t.Errorf("%v revocations counted, want 2", n)
		}
	})
}

func TestALookupInFlightDoesNotRestoreARevokedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, w := following(t, service)
		token := service.issue(1)
		release := service.hold() // the response is for a live token
		caller := authenticate(t.Context(), a, token)
		w.revocation("2", token)
		synctest.Wait()
		release()
		if err := <-caller; !errors.Is(err, authn.ErrRevoked) {
			t.Errorf("the waiting request returned %v", err)
		}
		refused(t, a, token, authn.ErrRevoked)
		service.mustHaveLookups(t, 1)
	})
}

func TestTheStreamResumesAtItsLastPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		registry := prometheus.NewRegistry()
		a, w := following(t, service, func(o *authn.Options) { o.Registerer = registry })
		if w.after != "" {
			t.Errorf("the first stream begins after %q, want from now", w.after)
		}
		if metric(t, registry, connected) != 1 {
			t.Error("the stream does not count as connected")
		}
		token := service.issue(1)
		accepted(t, a, token)
		w.heartbeat("7")
		w.fail(errUnavailable)
		synctest.Wait()
		if metric(t, registry, connected) != 0 {
			t.Error("the stream still counts as connected")
		}

		w = <-service.watches
		if w.after != "7" {
			t.Errorf("resumed after %q, want 7", w.after)
		}
		w.revocation("8", token)
		synctest.Wait()
		if metric(t, registry, connected) != 1 {
			t.Error("the stream does not count as connected again")
		}
		refused(t, a, token, authn.ErrRevoked)
		service.mustHaveLookups(t, 1)
	})
}

func TestReconnectsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		follow(t, newAuthenticator(t, service))
		bound := 100 * time.Millisecond
		last := time.Now()
		for attempt := range 12 {
			w := <-service.watches
			if gap := time.Since(last); attempt > 0 && (gap < bound/2 || gap > bound) {
				t.Errorf("attempt %d came after %v, want %v to %v", attempt, gap, bound/2, bound)
			} else if attempt > 0 {
				bound = min(2*bound, 5*time.Second)
			}
			last = time.Now()
			w.fail(errUnavailable)
		}
		w := <-service.watches
		w.heartbeat("1") // a connected stream resets the delay
		w.fail(errUnavailable)
		last = time.Now()
		(<-service.watches).heartbeat("2")
		if gap := time.Since(last); gap > 100*time.Millisecond {
			t.Errorf("after a success the next attempt came after %v", gap)
		}
	})
}

func TestMissedRevocationsInvalidateAllTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, w := following(t, service)
		token, revoked := service.issue(1), service.issue(2)
		accepted(t, a, token)
		accepted(t, a, revoked)
		service.revoke(revoked)

		w.expire()
		synctest.Wait()
		refused(t, a, revoked, authn.ErrRevoked)
		accepted(t, a, token)
		service.mustHaveLookups(t, 4)
		if w = <-service.watches; w.after != "" {
			t.Errorf("watched again after %q, want from now", w.after)
		}
	})
}

func TestInvalidatedTokensAreUsedInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, w := following(t, service)
		token := service.issue(1)
		accepted(t, a, token)
		service.fail(errUnavailable)
		w.expire()
		synctest.Wait()
		accepted(t, a, token)
	})
}

// A revocation between the lookup and the first message is not reported.
func TestAStreamWithoutPositionInvalidatesAllTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service), service.issue(1)
		accepted(t, a, token)
		service.revoke(token)
		accepted(t, a, token)
		follow(t, a)
		(<-service.watches).heartbeat("1")
		synctest.Wait()
		refused(t, a, token, authn.ErrRevoked)
	})
}

// A request that waits for a lookup from before an invalidation is refused after its token was
// revoked, however a later lookup ended.
func TestARevocationRefusesRequestsThatWaitForAnEarlierLookup(t *testing.T) {
	const evictedAfter = 5 * time.Second
	for name, revoke := range map[string]func(ctx context.Context, service *identity, a *authn.Authenticator, stream *watch, token string){
		"the later lookup is in flight": func(ctx context.Context, _ *identity, a *authn.Authenticator, stream *watch, token string) {
			authenticate(ctx, a, token)
			stream.revocation("2", token)
		},
		"the later lookup was dropped": func(ctx context.Context, _ *identity, a *authn.Authenticator, stream *watch, token string) {
			a.Apply(authn.Settings{MaxLookups: 1})
			ctx, hangUp := context.WithCancel(ctx)
			authenticate(ctx, a, token)
			hangUp()
			synctest.Wait()
			stream.revocation("2", token)
		},
		"the later lookup failed": func(ctx context.Context, service *identity, a *authn.Authenticator, stream *watch, token string) {
			service.endHold()
			service.fail(errUnavailable)
			authenticate(ctx, a, token)
			stream.revocation("2", token)
		},
		"the later lookup found it, and its result was evicted": func(
			ctx context.Context, service *identity, a *authn.Authenticator, _ *watch, token string,
		) {
			service.endHold()
			service.revoke(token)
			authenticate(ctx, a, token)
			time.Sleep(evictedAfter)
		},
		"the stream reported it, and it was evicted": func(
			_ context.Context, _ *identity, _ *authn.Authenticator, stream *watch, token string,
		) {
			stream.revocation("2", token)
			time.Sleep(evictedAfter)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := newIdentity()
				a, stream := following(t, service, func(o *authn.Options) {
					o.FreshFor, o.StaleFor, o.LookupTimeout = evictedAfter, evictedAfter, 2*evictedAfter
				})
				token := service.issue(1)
				release := service.hold() // the response is for a live token
				waiting := authenticate(t.Context(), a, token)
				stream.expire()
				revoke(t.Context(), service, a, <-service.watches, token)
				synctest.Wait()
				release()
				if err := <-waiting; !errors.Is(err, authn.ErrRevoked) {
					t.Errorf("the waiting request returned %v", err)
				}
			})
		})
	}
}

// The service answers the earlier lookup after the later one, and has revoked the token in between.
func TestALaterLookupDoesNotReplaceARevocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, stream := following(t, service)
		token := mint(1)
		service.revoke(token)
		release := service.hold()
		waiting := authenticate(t.Context(), a, token)
		stream.expire()
		synctest.Wait()
		service.endHold()
		service.add(token)
		accepted(t, a, token)
		release()
		if err := <-waiting; !errors.Is(err, authn.ErrRevoked) {
			t.Errorf("the waiting request returned %v", err)
		}
	})
}

// A lookup from before an invalidation succeeds after a later one has failed. The token needs no
// lookup that its requests wait for.
func TestAnEarlierLookupReplacesNoLaterEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, stream := following(t, service)
		token := service.issue(1)
		accepted(t, a, token)
		time.Sleep(25 * time.Second)
		release := service.hold()
		accepted(t, a, token) // and refreshed in the background
		stream.expire()
		synctest.Wait()
		service.endHold()
		service.fail(errUnavailable)
		accepted(t, a, token) // unconfirmed
		service.mustHaveLookups(t, 3)
		release()
		synctest.Wait()
		service.hold()
		start := time.Now()
		accepted(t, a, token)
		if waited := time.Since(start); waited > 0 {
			t.Errorf("a request waited %v", waited)
		}
	})
}

// invalidated starts the lookup of a token, which is then revoked without a message, and
// invalidates all tokens. The lookup completes when release is called, which returns the error of
// the request that waits for it.
func invalidated(t *testing.T, service *identity) (a *authn.Authenticator, token string, release func() error) {
	t.Helper()
	a, w := following(t, service)
	token = service.issue(1)
	land := service.hold()
	early := authenticate(t.Context(), a, token)
	service.revoke(token)
	w.expire()
	synctest.Wait()
	return a, token, func() error {
		land()
		return <-early
	}
}

func TestInvalidationIncludesLookupsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, token, release := invalidated(t, newIdentity())
		if err := release(); err != nil {
			t.Errorf("the request before the invalidation returned %v", err)
		}
		refused(t, a, token, authn.ErrRevoked)
	})
}

func TestRequestsAfterAnInvalidationStartANewLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token, release := invalidated(t, service)
		service.endHold()
		refused(t, a, token, authn.ErrRevoked)

		if err := release(); !errors.Is(err, authn.ErrRevoked) { // the earlier lookup completes later and changes nothing
			t.Errorf("the request before the invalidation returned %v", err)
		}
		service.fail(errUnavailable)
		refused(t, a, token, authn.ErrRevoked)
	})
}

func TestAStreamWithoutHeartbeatsCountsAsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		_, w := following(t, service)
		for range 10 {
			time.Sleep(10 * time.Second)
			w.heartbeat("2")
		}
		synctest.Wait()
		if len(service.watches) != 0 {
			t.Fatal("a stream with heartbeats was closed")
		}
		begin := time.Now()
		w = <-service.watches
		if silence := time.Since(begin).Round(time.Second); silence != 30*time.Second || w.after != "2" {
			t.Errorf("resumed after %v, from %q; want after 30s, from 2", silence, w.after)
		}
	})
}

func TestARevocationWithoutAHashInvalidatesAllTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, w := following(t, service)
		token := service.issue(1)
		accepted(t, a, token)
		service.revoke(token)
		w.events <- event{message: &identityv1.WatchRevocationsResponse{
			Position: "2", Revocation: &identityv1.Revocation{TokenId: idOf(token), TokenSha256: []byte("short")},
		}}
		synctest.Wait()
		refused(t, a, token, authn.ErrRevoked)
	})
}

func TestRunContinuesWithoutAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		service.watches = nil
		a := newAuthenticator(t, service)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := a.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
