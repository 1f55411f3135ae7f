package backendclient_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"opsgate/backendclient"
)

const slow, fast = "slow", "fast"

// slowForOne hangs for the team slow, and answers all others at once.
func slowForOne(ctx context.Context, team string) error {
	if team == slow {
		return hang(ctx)
	}
	return nil
}

// A traffic is the calls of a team: one in each interval, each for a second. It records how they end.
type traffic struct {
	team  string
	every time.Duration

	mu       sync.Mutex
	reasons  map[string]int // by Error.Reason, "" for none
	failures int            // of all kinds
}

// run makes the calls for a time, and waits for their end.
func (f *traffic) run(t testing.TB, clients *backendclient.Clients, during time.Duration) {
	t.Helper()
	f.reasons = make(map[string]int)
	var calls sync.WaitGroup
	for range during / f.every {
		calls.Go(func() {
			err := callOf(t, clients, f.team, time.Second)
			f.mu.Lock()
			defer f.mu.Unlock()
			if err != nil {
				f.failures++
				f.reasons[failure(t, err).Reason]++
			}
		})
		time.Sleep(f.every)
	}
	calls.Wait()
}

// together runs the traffic of several teams at once.
func together(t testing.TB, clients *backendclient.Clients, during time.Duration, all ...*traffic) {
	t.Helper()
	var running sync.WaitGroup
	for _, f := range all {
		running.Go(func() { f.run(t, clients, during) })
	}
	running.Wait()
}

func TestATeamGetsNoSlotAboveItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		clients := overWire(t, &wire{byTeam: slowForOne}, func(o *backendclient.Options) { o.MaxInFlight, o.Registerer = 10, registry })
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() { _ = callOf(t, clients, slow, time.Minute) })
		}
		synctest.Wait()
		e := failure(t, callOf(t, clients, slow, time.Minute))
		if e.Code != codes.Unavailable || e.Reason != backendclient.ReasonTeamOverloaded || e.RetryAfter != time.Second {
			t.Errorf("%v, reason %q, retry after %v", e, e.Reason, e.RetryAfter)
		}
		if err := callOf(t, clients, fast, time.Minute); err != nil {
			t.Errorf("a call of another team: %v", err)
		}
		if n := series(t, registry, "opsgate_upstream_refused_requests_total")["reason=team_overloaded service=fleet"]; n != 6 {
			t.Errorf("%v calls were refused, want 6: one team takes 5 of 10 slots", n)
		}
		calls.Wait()
	})
}

// One team sends 20 calls a second that run into their deadline. Another sends a call every so often, all of which are answered.
func TestTimeoutsOfOneTeamDoNotAffectOthers(t *testing.T) {
	for _, every := range []time.Duration{50 * time.Millisecond, 300 * time.Millisecond, 5 * time.Second, 40 * time.Second} {
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clients := overWire(t, &wire{byTeam: slowForOne})
				bad, good := &traffic{team: slow, every: 50 * time.Millisecond}, &traffic{team: fast, every: every}
				together(t, clients, 4*time.Minute, bad, good)
				if good.failures != 0 {
					t.Errorf("%d calls of the other team failed: %v", good.failures, good.reasons)
				}
				if s := breakerOf(clients); every < time.Second && s.State != backendclient.BreakerClosed {
					t.Errorf("the breaker is %s, although the service answers the other team: %s", s.State, s.Cause)
				}
			})
		})
	}
}

// While others succeed, a few of their own timeouts do not make those of one team count.
func TestRareTimeoutsOfOthersDoNotOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		clients := overWire(t, &wire{byTeam: func(ctx context.Context, team string) error {
			if team == fast && calls.Add(1)%20 != 0 {
				return nil
			}
			return hang(ctx)
		}})
		bad, good := &traffic{team: slow, every: 20 * time.Millisecond}, &traffic{team: fast, every: 100 * time.Millisecond}
		together(t, clients, time.Minute, bad, good)
		mustBe(t, clients, backendclient.BreakerClosed)
		if good.reasons[backendclient.ReasonBreakerOpen] != 0 {
			t.Errorf("calls of the other team failed: %v", good.reasons)
		}
	})
}

// If one team alone makes calls, its timeouts open the breaker for that team only, until calls of another one fail as well.
func TestABreakerOpenedByOneTeamRefusesOnlyThatTeam(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := make(lines, 1000)
		var hangs atomic.Bool
		w := &wire{byTeam: func(ctx context.Context, team string) error {
			if team == slow || hangs.Load() {
				return hang(ctx)
			}
			return nil
		}}
		clients := overWire(t, w, func(o *backendclient.Options) { o.Logger = slog.New(log) })
		begin := time.Now()
		bad := &traffic{team: slow, every: 50 * time.Millisecond}
		go bad.run(t, clients, 10*time.Second)
		for breakerOf(clients).State == backendclient.BreakerClosed && time.Since(begin) < 10*time.Second {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait() // the state is set before it is logged
		if s := breakerOf(clients); s.State != backendclient.BreakerOpen || s.Team != slow || s.Since.Sub(begin) > 2*time.Second {
			t.Fatalf("after %v the breaker is %+v", time.Since(begin), s)
		}
		if line := lastLine(log); !strings.HasSuffix(line, "; only calls of team slow are refused") {
			t.Errorf("logged %q", line)
		}
		if !isRefused(t, callOf(t, clients, slow, time.Second), backendclient.ReasonBreakerOpen) {
			t.Error("a call of the team is made")
		}
		for range 5 {
			if err := callOf(t, clients, fast, time.Second); err != nil {
				t.Errorf("a call of another team: %v", err)
			}
		}
		hangs.Store(true)
		if e := failure(t, callOf(t, clients, fast, time.Second)); e.Code != codes.DeadlineExceeded {
			t.Errorf("a call of another team to a service that does not answer: %v", e)
		}
		if s := breakerOf(clients); s.Team != "" || !isRefused(t, callOf(t, clients, "third", time.Second), backendclient.ReasonBreakerOpen) {
			t.Errorf("calls of two teams failed, and the breaker is %+v", s)
		}
		time.Sleep(15 * time.Second)
	})
}

func TestTimeoutsOfAllTeamsOpenTheBreakerWithinASecond(t *testing.T) {
	for _, teams := range []int{1, 2, 3, 10} {
		t.Run(fmt.Sprint(teams), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hangs atomic.Bool
				clients := overWire(t, &wire{answer: func(ctx context.Context) error {
					if hangs.Load() {
						return hang(ctx)
					}
					return nil
				}})
				var all []*traffic
				for i := range teams {
					all = append(all, &traffic{team: fmt.Sprint("team-", i), every: 20 * time.Millisecond * time.Duration(teams)})
				}
				opened := make(chan time.Duration, 1)
				go func() {
					time.Sleep(15 * time.Second)
					begin := time.Now()
					hangs.Store(true)
					for breakerOf(clients).State != backendclient.BreakerOpen && time.Since(begin) < 10*time.Second {
						time.Sleep(time.Millisecond)
					}
					opened <- time.Since(begin) - time.Second + 10*time.Millisecond // the deadline of the first call that hangs
				}()
				together(t, clients, 20*time.Second, all...)
				if after := <-opened; after > time.Second {
					t.Errorf("the breaker opened %v after the first timeout", after)
				}
			})
		})
	}
}

// Two thirds of all calls of all teams time out. No team is special, so the breaker opens on the rate as for other failures.
func TestARateOfTimeoutsOfSeveralTeamsOpensTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		clients := overWire(t, &wire{byTeam: func(ctx context.Context, _ string) error {
			if calls.Add(1)%3 == 0 {
				return nil
			}
			return hang(ctx)
		}})
		var all []*traffic
		for i := range 10 {
			all = append(all, &traffic{team: fmt.Sprint("team-", i), every: 200*time.Millisecond + time.Duration(i)*time.Millisecond})
		}
		together(t, clients, 10*time.Second, all...)
		if all[0].reasons[backendclient.ReasonBreakerOpen] == 0 {
			t.Errorf("the breaker is %+v", breakerOf(clients))
		}
	})
}

func TestOtherFailuresOfOneTeamCountForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := overWire(t, &wire{byTeam: func(context.Context, string) error { return status.Error(codes.Internal, "no disk") }})
		for range 30 {
			_ = callOf(t, clients, slow, time.Second)
		}
		if s := breakerOf(clients); s.State != backendclient.BreakerOpen || s.Team != "" {
			t.Errorf("the breaker is %+v", s)
		}
		if !isRefused(t, callOf(t, clients, fast, time.Second), backendclient.ReasonBreakerOpen) {
			t.Error("a call of another team is made")
		}
	})
}

// Whatever the rates, the number of teams and the length of calls: if one team's calls time out and all others succeed, no call of another
// team fails.
func TestOneSlowTeamAffectsNoOther(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pace := rapid.IntRange(20, 3000)
		all := []*traffic{{team: slow, every: time.Duration(pace.Draw(rt, "slow")) * time.Millisecond}}
		for i := range rapid.IntRange(1, 4).Draw(rt, "others") {
			all = append(all, &traffic{team: fmt.Sprint("team-", i), every: time.Duration(pace.Draw(rt, "other")) * time.Millisecond})
		}
		took := time.Duration(rapid.IntRange(0, 900).Draw(rt, "took")) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			clients := overWire(t, &wire{byTeam: func(ctx context.Context, team string) error {
				if team == slow {
					return hang(ctx)
				}
				time.Sleep(took)
				return nil
			}})
			together(t, clients, 10*time.Second, all...)
		})
		for _, other := range all[1:] {
			if other.failures > 0 {
				rt.Fatalf("%d calls of %s failed: %v", other.failures, other.team, other.reasons)
			}
		}
	})
}
