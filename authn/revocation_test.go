package authn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/authn"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// follow has the Authenticator follow revocations until the test ends.
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

// following returns an Authenticator whose stream is up, at position 1.
func following(t *testing.T, service *identity, change ...func(*authn.Options)) (*authn.Authenticator, *watch) {
	t.Helper()
	a := newAuthenticator(t, service, change...)
	follow(t, a)
	w := <-service.watches
	w.heartbeat("1")
	synctest.Wait()
	return a, w
}

const connected = "opsgate_authn_revocation_stream_connected"

func TestARevokedTokenIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		registry := prometheus.NewRegistry()
		a, w := following(t, service, func(o *authn.Options) { o.Registerer = registry })
		token, other := service.know(1), service.know(2)
		accepted(t, a, token)
		accepted(t, a, other)

		w.revocation("2", token)
		w.revocation("3", mint(3)) // of which nothing is known here
		synctest.Wait()
		refused(t, a, token, authn.ErrRevoked)
		refused(t, a, token, authn.ErrInvalidToken)
		accepted(t, a, other)
		if n := service.lookUps(); n != 2 {
			t.Errorf("%d look-ups, want 2: a revocation needs none", n)
		}
		if n := metric(t, registry, "opsgate_authn_revocations_total"); n != 2 {
			t.Errorf("%v revocations counted, want 2", n)
		}
	})
}

func TestARevocationOutlastsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, w := following(t, service)
		token := service.know(1)
		accepted(t, a, token)
		service.fail(errAway)
		w.revocation("2", token)
		synctest.Wait()
		w.fail(status.Error(codes.OutOfRange, "forgotten"))
		time.Sleep(9 * time.Minute)
		refused(t, a, token, authn.ErrRevoked)
	})
}

func TestALookUpUnderWayDoesNotBringARevokedTokenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, w := following(t, service)
		token := service.know(1)
		release := service.hold() // the service has already answered that it is live
		caller := make(chan error)
		go func() {
			_, err := a.Authenticate(t.Context(), token, office)
			caller <- err
		}()
		synctest.Wait()
		w.revocation("2", token)
		synctest.Wait()
		release()
		if err := <-caller; !errors.Is(err, authn.ErrRevoked) {
			t.Errorf("who waited got %v", err)
		}
		refused(t, a, token, authn.ErrRevoked)
		if n := service.lookUps(); n != 1 {
			t.Errorf("%d look-ups, want 1", n)
		}
	})
}

func TestABrokenStreamIsTakenUpWhereItBroke(t *testing.T) {
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
		token := service.know(1)
		accepted(t, a, token)
		w.heartbeat("7")
		w.fail(errAway)
		synctest.Wait()
		if metric(t, registry, connected) != 0 {
			t.Error("the stream still counts as connected")
		}

		w = <-service.watches
		if w.after != "7" {
			t.Errorf("taken up after %q, want 7", w.after)
		}
		w.revocation("8", token)
		synctest.Wait()
		if metric(t, registry, connected) != 1 {
			t.Error("the stream does not count as connected again")
		}
		refused(t, a, token, authn.ErrRevoked)
		if n := service.lookUps(); n != 1 {
			t.Errorf("%d look-ups, want 1: nothing was missed, so nothing needs confirming", n)
		}
	})
}

func TestAttemptsGrowApart(t *testing.T) {
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
			w.fail(errAway)
		}
		w := <-service.watches
		w.heartbeat("1") // a stream that works makes up for all
		w.fail(errAway)
		last = time.Now()
		(<-service.watches).heartbeat("2")
		if gap := time.Since(last); gap > 100*time.Millisecond {
			t.Errorf("after a success the next attempt came after %v", gap)
		}
	})
}

func TestMissedRevocationsMakeEveryTokenDoubtful(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, w := following(t, service)
		token, revoked := service.know(1), service.know(2)
		accepted(t, a, token)
		accepted(t, a, revoked)
		service.revoke(revoked)

		w.fail(status.Error(codes.OutOfRange, "forgotten"))
		synctest.Wait()
		refused(t, a, revoked, authn.ErrRevoked)
		accepted(t, a, token)
		if n := service.lookUps(); n != 4 {
			t.Errorf("%d look-ups, want 4", n)
		}
		if w = <-service.watches; w.after != "" {
			t.Errorf("watched anew after %q, want from now", w.after)
		}
	})
}

func TestDoubtfulTokensAreUsedWhereNobodyCanTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, w := following(t, service)
		token := service.know(1)
		accepted(t, a, token)
		service.fail(errAway)
		w.fail(status.Error(codes.OutOfRange, "forgotten"))
		synctest.Wait()
		accepted(t, a, token)
	})
}

// Between the look-up and the first message nobody would have told of a revocation.
func TestAStreamFromNowOnMakesWhatWasBeforeDoubtful(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token := newAuthenticator(t, service), service.know(1)
		accepted(t, a, token)
		service.revoke(token)
		accepted(t, a, token)
		follow(t, a)
		(<-service.watches).heartbeat("1")
		synctest.Wait()
		refused(t, a, token, authn.ErrRevoked)
	})
}

// doubted has a token looked up, which is then revoked, and nobody tells: what was learned before is in doubt. The look-up lands, and the
// token is taken by who waits for that, when release is called.
func doubted(t *testing.T, service *identity) (a *authn.Authenticator, token string, release func()) {
	t.Helper()
	a, w := following(t, service)
	token = service.know(1)
	land := service.hold()
	early := make(chan error, 1)
	go func() {
		_, err := a.Authenticate(t.Context(), token, office)
		early <- err
	}()
	synctest.Wait()
	service.revoke(token)
	w.fail(status.Error(codes.OutOfRange, "forgotten"))
	synctest.Wait()
	return a, token, func() {
		t.Helper()
		land()
		if err := <-early; err != nil {
			t.Errorf("who asked before the doubt got %v", err)
		}
	}
}

func TestALookUpOfBeforeTheDoubtIsNotTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, token, release := doubted(t, newIdentity())
		release()
		refused(t, a, token, authn.ErrRevoked)
	})
}

func TestWhoAsksAfterTheDoubtDoesNotWaitForALookUpOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, token, release := doubted(t, service)
		service.holdNoMore()
		refused(t, a, token, authn.ErrRevoked)

		release() // and the earlier, landing later, changes nothing
		service.fail(errAway)
		refused(t, a, token, authn.ErrRevoked)
	})
}

func TestASilentStreamCountsAsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		_, w := following(t, service)
		for range 10 {
			time.Sleep(10 * time.Second)
			w.heartbeat("2")
		}
		synctest.Wait()
		if len(service.watches) != 0 {
			t.Fatal("a stream with heartbeats was given up")
		}
		begin := time.Now()
		w = <-service.watches
		if silence := time.Since(begin).Round(time.Second); silence != 30*time.Second || w.after != "2" {
			t.Errorf("taken up after %v, from %q; want after 30s, from 2", silence, w.after)
		}
	})
}

func TestARevocationOfNoTokenCastsDoubtOnAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, w := following(t, service)
		token := service.know(1)
		accepted(t, a, token)
		service.revoke(token)
		w.events <- event{message: &identityv1.WatchRevocationsResponse{
			Position: "2", Revocation: &identityv1.Revocation{TokenId: idOf(token), TokenSha256: []byte("short")},
		}}
		synctest.Wait()
		refused(t, a, token, authn.ErrRevoked)
	})
}

func TestRunGoesOnWhereNoStreamCanBeOpened(t *testing.T) {
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
