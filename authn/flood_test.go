package authn_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	randv2 "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/authn"
	"opsgate/internal/testkit"
)

// invent returns a well-formed token that mint does not return.
func invent(number int) string {
	seed := [32]byte{31: 1}
	binary.BigEndian.PutUint64(seed[:], uint64(number))
	token, err := format.New(randv2.NewChaCha8(seed))
	if err != nil {
		panic(err)
	}
	return token
}

// flood sends n invented tokens at once and returns how many were shed. The others are being looked
// up or queued.
func flood(t *testing.T, a *authn.Authenticator, source authn.Source, first, tokens int) (shed int) {
	t.Helper()
	var mu sync.Mutex
	for number := range tokens {
		go func() {
			_, err := a.Authenticate(t.Context(), invent(first+number), source)
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

func TestUnknownTokensDoNotFloodTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		registry := prometheus.NewRegistry()
		var log testkit.Buffer
		a := newAuthenticator(t, service, func(o *authn.Options) {
			o.Registerer, o.Logger = registry, slog.New(slog.NewTextHandler(&log, nil))
		})
		begin := time.Now()
		release := service.hold()
		if shed := flood(t, a, office, 0, 600); shed != 600-256 || time.Since(begin) != 0 {
			t.Errorf("%d refused after %v, want 344 at once", shed, time.Since(begin))
		}
		service.mustHaveLookups(t, 64)
		inFlight := func() float64 { return metric(t, registry, "opsgate_authn_lookups_in_flight", "unknown") }
		queued := func() float64 { return metric(t, registry, "opsgate_authn_lookups_queued") }
		if inFlight() != 64 || queued() != 192 {
			t.Errorf("%v lookups counted as in flight and %v as queued, want 64 and 192", inFlight(), queued())
		}
		if n := metric(t, registry, "opsgate_authn_lookups_total", "shed"); n != 344 {
			t.Errorf("%v lookups counted as shed, want 344", n)
		}
		release()
		synctest.Wait()
		if inFlight() != 0 || queued() != 0 {
			t.Errorf("%v lookups counted as in flight and %v as queued after all have ended", inFlight(), queued())
		}
		service.mustHaveLookups(t, 256)
		accepted(t, a, service.issue(250))

		time.Sleep(5 * time.Second)
		release = service.hold()
		flood(t, a, office, 0, 257)
		release()
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%d lines in the log while some are refused, want 1:\n%s", n, &log)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "first_refused=192.0.2.0/24") ||
			!strings.Contains(lines[1], "failures=345") {
			t.Errorf("log:\n%s", &log)
		}
	})
}

func TestAHigherLimitOfLookupsHoldsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a := newAuthenticator(t, service, func(o *authn.Options) { o.MaxLookups = 3 })
		release := service.hold()
		if shed := flood(t, a, office, 0, 20); shed != 8 || service.lookups() != 3 {
			t.Errorf("%d refused, want 8; %d lookups, want 3", shed, service.lookups())
		}
		a.Apply(authn.Settings{MaxLookups: 5})
		if synctest.Wait(); service.lookups() != 5 {
			t.Errorf("%d lookups without another request, want 5", service.lookups())
		}
		if shed := flood(t, a, office, 20, 20); shed != 12 || service.lookups() != 5 {
			t.Errorf("%d refused, want 12: 12 requests waited already; %d lookups, want 5", shed, service.lookups())
		}
		release()
		synctest.Wait()
	})
}

func TestRequestsOfOneTokenShareItsLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a := newAuthenticator(t, service, func(o *authn.Options) { o.MaxLookups = 1 })
		token := service.issue(1)
		release := service.hold()
		shed := flood(t, a, office, 0, 3)
		var callers sync.WaitGroup
		for i := range 4 { // from any network, and although the lookup is queued
			callers.Go(func() {
				if _, err := a.Authenticate(t.Context(), token, from(fmt.Sprintf("198.51.%d.1", i/2))); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		release()
		callers.Wait()
		synctest.Wait()
		if n := service.lookups(); shed != 0 || n != 4 {
			t.Errorf("%d refused, %d lookups, want 0 and 4", shed, n)
		}
	})
}

// Each waiting request holds a request slot of the gateway, so requests of one token are limited as
// well.
func TestRequestsOfOneUnknownTokenAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a := newAuthenticator(t, service)
		release := service.hold()
		var waiting, shed atomic.Int64
		for range 1000 {
			go func() {
				waiting.Add(1)
				defer waiting.Add(-1)
				if _, err := a.Authenticate(t.Context(), invent(1), office); errors.Is(err, authn.ErrBusy) {
					shed.Add(1)
				}
			}()
		}
		synctest.Wait()
		if waiting.Load() != 256 || shed.Load() != 744 || service.lookups() != 1 {
			t.Errorf("%d wait for %d lookups and %d were refused, want 256, 1, 744", waiting.Load(), service.lookups(), shed.Load())
		}
		release()
		synctest.Wait()
	})
}

func TestAQueuedRequestWaitsForLookupTimeoutAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a := newAuthenticator(t, service, func(o *authn.Options) { o.LookupTimeout = time.Minute })
		release := service.hold()
		flood(t, a, office, 0, 64)
		begin := time.Now()
		a.Apply(authn.Settings{LookupTimeout: 3 * time.Second})
		refused(t, a, invent(64), authn.ErrBusy)
		if waited := time.Since(begin); waited != 3*time.Second {
			t.Errorf("waited %v, want 3s", waited)
		}
		begin = time.Now()
		if _, err := a.Authenticate(deadline{t.Context(), begin.Add(time.Second)}, invent(64), office); !errors.Is(err, authn.ErrBusy) {
			t.Errorf("a request with an expired deadline: %v", err)
		}
		if waited := time.Since(begin); waited != time.Second {
			t.Errorf("waited %v, want 1s", waited)
		}
		release()
		synctest.Wait()
		service.mustHaveLookups(t, 64)
	})
}

// A deadline is a context with a deadline but no timer, like the gateway's.
type deadline struct {
	context.Context
	at time.Time
}

func (d deadline) Deadline() (time.Time, bool) { return d.at, true }

func TestQueuedLookupsOfCanceledRequestsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		registry := prometheus.NewRegistry()
		a := newAuthenticator(t, service, func(o *authn.Options) { o.Registerer = registry })
		release := service.hold()
		flood(t, a, office, 0, 64)
		ctx, hangUp := context.WithCancel(t.Context())
		for number := range 100 {
			go func() { _, _ = a.Authenticate(ctx, invent(64+number), office) }()
		}
		synctest.Wait()
		hangUp()
		synctest.Wait()
		if n := metric(t, registry, "opsgate_authn_lookups_queued"); n != 0 {
			t.Errorf("%v lookups are queued", n)
		}
		release()
		synctest.Wait()
		service.mustHaveLookups(t, 64)
	})
}

func TestKnownTokensAreLookedUpDuringAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, w := following(t, service)
		inUse, rested := service.issue(201), service.issue(202)
		accepted(t, a, rested)
		time.Sleep(10 * time.Second)
		accepted(t, a, inUse)
		time.Sleep(21 * time.Second)
		w.heartbeat("1")
		service.revoke(inUse)
		service.revoke(rested)

		release := service.hold()
		if shed := flood(t, a, office, 0, 300); shed != 44 {
			t.Fatalf("%d refused, want 44", shed)
		}
		accepted(t, a, inUse) // and refreshed in the background
		result := authenticate(t.Context(), a, rested)
		service.mustHaveLookups(t, 2+64+2)
		release()
		if err := <-result; !errors.Is(err, authn.ErrRevoked) {
			t.Errorf("the unused token: %v", err)
		}
		synctest.Wait()
		refused(t, a, inUse, authn.ErrRevoked)
	})
}

func TestRefreshesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a := newAuthenticator(t, service, func(o *authn.Options) { o.MaxLookups = 3 })
		all := func() {
			for i := range 10 {
				accepted(t, a, service.issue(byte(i)))
			}
		}
		all()
		time.Sleep(21 * time.Second)
		for _, want := range []int{13, 16, 19, 20, 20} {
			release := service.hold()
			all()
			synctest.Wait()
			service.mustHaveLookups(t, want)
			release()
			synctest.Wait()
		}
	})
}

// Each invented token is sent more often than any confirmed one, and there are ten times as many as
// the capacity.
func TestInventedTokensDoNotEvictConfirmedOnes(t *testing.T) {
	const room = 200
	service := newIdentity()
	now := time.Now()
	a := newAuthenticator(t, service, func(o *authn.Options) {
		o.MaxEntries = room
		o.Clock = func() time.Time { return now } // no entry expires, however slow the machine is
	})
	random := randv2.NewChaCha8([32]byte{1})
	made := func() string {
		token, err := format.New(random)
		testkit.Must(t, err)
		return token
	}
	confirmed := make([]string, room*9/10)
	for i := range confirmed {
		confirmed[i] = made()
		service.add(confirmed[i])
		accepted(t, a, confirmed[i])
	}
	for range 10 * room {
		token := made()
		for range 3 {
			refused(t, a, token, authn.ErrNotFound)
		}
	}
	before := service.lookups()
	for _, token := range confirmed {
		accepted(t, a, token)
	}
	if n := service.lookups() - before; n != 0 {
		t.Errorf("%d of %d confirmed tokens were evicted", n, len(confirmed))
	}
}
