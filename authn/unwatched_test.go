package authn_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"opsgate/authn"
	"opsgate/internal/testkit"
)

// cut disconnects the stream and fails all attempts to reconnect. Time passes, so that later
// lookups are after the disconnect.
func cut(service *identity, w *watch) {
	service.cut.Store(true)
	w.fail(errUnavailable)
	synctest.Wait()
	time.Sleep(time.Millisecond)
}

// mend lets the stream reconnect, and returns it.
func mend(service *identity) *watch {
	service.cut.Store(false)
	return <-service.watches
}

func TestATokenConfirmedWhileDisconnectedIsAcceptedForLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, w := following(t, service)
		cut(service, w)
		token := service.issue(1)
		accepted(t, a, token)
		service.revoke(token)
		time.Sleep(5 * time.Second)
		accepted(t, a, token)
		time.Sleep(5 * time.Second)
		refused(t, a, token, authn.ErrRevoked)
	})
}

func TestATokenConfirmedBeforeTheDisconnectIsRefreshedInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, w := following(t, service)
		token := service.issue(1)
		accepted(t, a, token)
		time.Sleep(15 * time.Second)
		accepted(t, a, token)
		service.mustHaveLookups(t, 1)
		service.revoke(token)
		cut(service, w)
		release := service.hold()
		before := time.Now()
		accepted(t, a, token)
		if waited := time.Since(before); waited != 0 {
			t.Errorf("waited %v", waited)
		}
		release()
		synctest.Wait()
		refused(t, a, token, authn.ErrRevoked)
	})
}

func TestAReconnectRestoresFreshFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, w := following(t, service)
		cut(service, w)
		token := service.issue(1)
		accepted(t, a, token)
		mend(service).heartbeat("1")
		time.Sleep(14 * time.Second) // up to five of them until the reconnect
		synctest.Wait()
		accepted(t, a, token)
		synctest.Wait()
		service.mustHaveLookups(t, 1)
	})
}

func TestADisconnectRefreshesOnlyTokensInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newIdentity()
		a, w := following(t, service)
		tokens := make([]string, 100)
		for i := range tokens {
			tokens[i] = service.issue(byte(i))
			accepted(t, a, tokens[i])
		}
		time.Sleep(15 * time.Second)
		cut(service, w)
		time.Sleep(time.Second)
		service.mustHaveLookups(t, 100)
		for range 5 {
			accepted(t, a, tokens[0])
			synctest.Wait()
		}
		service.mustHaveLookups(t, 101)
	})
}

// In a random schedule of requests, waits, revocations, outages and disconnects, or without the
// stream, revoked tokens are accepted for a limited time, and live ones are refused only in
// outages, as unavailable.
func TestRevokedTokensAreRefusedInAnySchedule(t *testing.T) {
	step := rapid.OneOf(
		rapid.Just("use"),
		rapid.SampledFrom([]string{"wait 1s", "wait 4s", "wait 7s", "wait 15s", "wait 40s", "wait 200s"}),
		rapid.SampledFrom([]string{"revoke", "fail", "answer", "cut", "restore"}),
	)
	rapid.Check(t, func(rt *rapid.T) {
		// Steps are drawn before the bubble and errors are reported after it, as both may end the
		// goroutine.
		steps := rapid.SliceOfN(step, 20, 60).Draw(rt, "steps")
		watched := rapid.Bool().Draw(rt, "watched")
		var problem string
		synctest.Test(t, func(t *testing.T) { problem = newSchedule(t, watched).run(t, steps) })
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

// A schedule is the state of a token, its service and the stream.
type schedule struct {
	service *identity
	a       *authn.Authenticator
	token   string

	watched  bool
	stream   *watch // nil while disconnected
	lost     time.Time
	down     bool // the service
	answers  time.Time
	revoked  time.Time // zero while it is not
	reported bool      // the stream has reported it
}

func newSchedule(t *testing.T, watched bool) *schedule {
	t.Helper()
	s := &schedule{service: newIdentity(), watched: watched}
	if watched {
		s.a, s.stream = following(t, s.service)
	} else {
		s.a = newAuthenticator(t, s.service)
	}
	s.token = s.service.issue(1)
	return s
}

// run runs the steps until one has a wrong outcome, and returns a description of it.
func (s *schedule) run(t *testing.T, steps []string) (problem string) {
	t.Helper()
	for _, step := range steps {
		name, argument, _ := strings.Cut(step, " ")
		switch name {
		case "wait":
			d, err := time.ParseDuration(argument)
			testkit.Must(t, err)
			s.wait(d)
		case "revoke":
			s.revoke()
		case "fail":
			s.service.fail(errUnavailable)
			s.down = true
		case "answer":
			s.service.fail(nil)
			s.down, s.answers = false, time.Now()
		case "cut":
			if s.stream != nil {
				cut(s.service, s.stream)
				s.stream, s.lost = nil, time.Now()
			}
		case "restore":
			s.restore()
		default:
			if problem := s.use(t); problem != "" {
				return problem
			}
		}
	}
	return ""
}

// wait sleeps, with heartbeats on a connected stream.
func (s *schedule) wait(d time.Duration) {
	for ; d > 0; d -= time.Second {
		time.Sleep(time.Second)
		if s.stream != nil {
			s.stream.heartbeat("1")
			synctest.Wait()
		}
	}
}

func (s *schedule) revoke() {
	if !s.revoked.IsZero() {
		return
	}
	s.service.revoke(s.token)
	s.revoked = time.Now()
	s.sendRevocation()
}

// sendRevocation sends a pending revocation on the stream.
func (s *schedule) sendRevocation() {
	if s.stream != nil && !s.revoked.IsZero() && !s.reported {
		s.stream.revocation("1", s.token)
		s.reported = true
		synctest.Wait()
	}
}

func (s *schedule) restore() {
	if s.stream != nil || !s.watched {
		return
	}
	s.stream = mend(s.service)
	s.stream.heartbeat("1")
	synctest.Wait()
	s.sendRevocation()
}

// use sends a request, and returns a description of a wrong outcome.
func (s *schedule) use(t *testing.T) (problem string) {
	t.Helper()
	p, err := s.a.Authenticate(t.Context(), s.token, office)
	synctest.Wait()
	if err == nil && p == nil {
		return "neither a principal nor an error"
	}
	const (
		freshFor, unwatchedFor, staleFor = 30 * time.Second, 10 * time.Second, 10 * time.Minute
		grace                            = 5 * time.Second // after an outage
	)
	if s.revoked.IsZero() {
		if err != nil && (!s.down || !errors.Is(err, authn.ErrUnavailable)) {
			return fmt.Sprintf("a live token is refused: %v", err)
		}
		return ""
	}
	if err != nil {
		return ""
	}
	since := time.Since(s.revoked)
	answered := !s.down && time.Since(s.answers) >= grace
	switch {
	case s.reported:
		return "accepted after the stream reported its revocation"
	case since >= staleFor:
		return fmt.Sprintf("accepted %v after its revocation", since)
	case answered && since >= freshFor:
		return fmt.Sprintf("accepted %v after its revocation, with the service up", since)
	case s.watched && answered && since >= unwatchedFor && time.Since(s.lost) >= freshFor:
		return fmt.Sprintf("accepted %v after its revocation, with the stream cut for %v", since, time.Since(s.lost))
	}
	return ""
}
