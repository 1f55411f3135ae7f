package backendclient_test

import (
	"cmp"
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

	"opsgate/backendclient"
	"opsgate/backendclient/breaker"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

const slow, fast = "slow", "fast"

// slowForOne hangs for the team slow, and answers all others at once.
func slowForOne(ctx context.Context, team string) error {
	if team == slow {
		return hang(ctx)
	}
	return nil
}

// A cause is why the calls of a team fail.
type cause struct {
	name   string
	answer func(context.Context) (*fleetv1.GetServerResponse, error)
}

func causes() []cause {
	return []cause{
		{"its calls time out", func(ctx context.Context) (*fleetv1.GetServerResponse, error) { return nil, hang(ctx) }},
		{"its calls fail", func(context.Context) (*fleetv1.GetServerResponse, error) {
			return nil, status.Error(codes.Internal, "no disk")
		}},
		{"its data is invalid", func(context.Context) (*fleetv1.GetServerResponse, error) {
			return &fleetv1.GetServerResponse{Server: &fleetv1.Server{Name: "\xff"}}, nil // not UTF-8
		}},
	}
}

// A traffic is the calls of a team: one in each interval. It records how they end.
type traffic struct {
	team    string
	every   time.Duration
	timeout time.Duration // of a call; by default a second

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
			err := callOf(t, clients, f.team, cmp.Or(f.timeout, time.Second))
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

// The calls of some teams fail, because of their data. Those of another team are made and succeed,
// also after an outage of the whole service. While nothing answers, new teams make some calls.
func TestFailingTeamsDoNotAffectOthers(t *testing.T) {
	for i, cause := range causes() {
		for _, failing := range [][]int{{1, 2, 5, 10}, {1, 2, 5, 10}, {1}}[i] {
			for _, every := range []time.Duration{50 * time.Millisecond, 300 * time.Millisecond, time.Second, 5 * time.Second} {
				t.Run(fmt.Sprintf("%s/%d/%v", cause.name, failing, every), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { failingTeamsDoNotAffectOthers(t, cause, failing, every) })
				})
			}
		}
	}
}

func failingTeamsDoNotAffectOthers(t *testing.T, cause cause, failing int, every time.Duration) {
	t.Helper()
	var outage atomic.Bool
	var newcomers atomic.Int32
	clients := oneProcess(t, func(ctx context.Context, team string) (*fleetv1.GetServerResponse, error) {
		switch {
		case outage.Load():
			if strings.HasPrefix(team, "new") {
				newcomers.Add(1)
			}
			return nil, hang(ctx)
		case strings.HasPrefix(team, "failing"):
			return cause.answer(ctx)
		}
		return &fleetv1.GetServerResponse{}, nil
	})
	run := func(during time.Duration) (failures int, reasons map[string]int) {
		all := []*traffic{{team: "other", every: every}}
		for i := range failing {
			all = append(all, &traffic{team: fmt.Sprint("failing-", i), every: 50 * time.Millisecond})
		}
		together(t, clients, during, all...)
		if s := breakerOf(clients); every < 500*time.Millisecond && s.State != breaker.Closed && !outage.Load() {
			t.Errorf("the breaker is %s, although the service answers the other team: %s", s.State, s.Cause)
		}
		return all[0].failures, all[0].reasons
	}
	const usual = 30 * time.Second
	if failures, reasons := run(usual); failures > 0 {
		t.Errorf("%d of %d calls of the other team failed: %v", failures, usual/every, reasons)
	}
	outage.Store(true)
	time.AfterFunc(2*time.Second, func() { outage.Store(false) })
	run(12 * time.Second)
	if failures, reasons := run(usual); failures > 0 {
		t.Errorf("from 10 s after an outage on, %d of %d calls of the other team failed: %v", failures, usual/every, reasons)
	}
	outage.Store(true)
	go run(10 * time.Second)
	time.Sleep(7 * time.Second)
	if s := breakerOf(clients); s.State == breaker.Closed || s.Team != "" {
		t.Errorf("nothing answers, and the breaker is %+v", s)
	}
	for i := range 100 {
		for range 5 {
			go func() { _ = callOf(t, clients, fmt.Sprint("new-", i), time.Second) }()
		}
	}
	time.Sleep(10 * time.Second)
	if n := int(newcomers.Load()); n == 0 || n > backendclient.DefaultSettings().MaxInFlight/10 {
		t.Errorf("%d calls of new teams were made at once", n)
	}
}

// If one team alone makes calls, its timeouts open the breaker for that team only, until calls of
// another one fail as well.
func TestABreakerOpenedByOneTeamRefusesOnlyThatTeam(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := make(lines, 1000)
		var hangs atomic.Bool
		w := &wire{byTeam: func(ctx context.Context, team string) error {
			if team == slow || hangs.Load() {
				return hang(ctx)
			}
			time.Sleep(100 * time.Millisecond)
			return nil
		}}
		clients := overWire(t, w, func(o *backendclient.Options) { o.Logger = slog.New(log) })
		begin := time.Now()
		bad := &traffic{team: slow, every: 50 * time.Millisecond}
		go bad.run(t, clients, 10*time.Second)
		for breakerOf(clients).State == breaker.Closed && time.Since(begin) < 10*time.Second {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait() // the state is set before it is logged
		if s := breakerOf(clients); s.State != breaker.Open || s.Team != slow || s.Since.Sub(begin) > 2*time.Second {
			t.Fatalf("after %v the breaker is %+v", time.Since(begin), s)
		}
		if line := lastLine(log); !strings.HasSuffix(line, "; only calls of team slow are refused") {
			t.Errorf("logged %q", line)
		}
		if !isRefused(t, callOf(t, clients, slow, time.Second), backendclient.ReasonBreakerOpen) {
			t.Error("a call of the team is made")
		}
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() {
				if err := callOf(t, clients, fast, time.Second); err != nil {
					t.Errorf("one of many calls of another team: %v", err)
				}
			})
		}
		calls.Wait()
		hangs.Store(true)
		other := &traffic{team: fast, every: 50 * time.Millisecond}
		other.run(t, clients, 2*time.Second)
		if s := breakerOf(clients); s.Team != "" || other.reasons[""] == 0 || other.reasons[backendclient.ReasonBreakerOpen] == 0 {
			t.Errorf("calls of two teams failed, and the breaker is %+v; calls of the second ended as %v", s, other.reasons)
		}
		if e := failure(t, callOf(t, clients, "third", time.Second)); e.Code != codes.DeadlineExceeded {
			t.Errorf("a call of a team without a failure: %v", e)
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
					for breakerOf(clients).State != breaker.Open && time.Since(begin) < 10*time.Second {
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

// A failure that no data can cause counts for all teams, although it is of one.
func TestFailuresOfTheServiceCountForAllTeams(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.Unauthenticated} {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: always(status.Error(code, "gone"))}
			clients := overWire(t, w, func(o *backendclient.Options) { o.Retries.Max = 0 })
			for range backendclient.DefaultSettings().Breaker.MinRequests {
				_ = callOf(t, clients, slow, time.Second)
			}
			if s := breakerOf(clients); s.State != breaker.Open || s.Team != "" {
				t.Errorf("after failures with %v the breaker is %+v", code, s)
			}
			before := w.attempts.Load()
			for range 10 {
				_ = callOf(t, clients, fast, time.Second)
			}
			if made := w.attempts.Load() - before; made != 1 {
				t.Errorf("%d calls of another team are made, want 1: it fails", made)
			}
		})
	}
}
