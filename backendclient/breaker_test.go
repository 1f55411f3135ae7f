package backendclient_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/backendclient"
	"opsgate/backendclient/breaker"
	"opsgate/internal/testkit"
	"opsgate/proto/contract"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// breakerOf returns the status of the fleet service's breaker.
func breakerOf(clients *backendclient.Clients) breaker.Status {
	return clients.Services()["fleet"].Breaker
}

func mustBe(t *testing.T, clients *backendclient.Clients, state breaker.State) {
	t.Helper()
	if got := breakerOf(clients); got.State != state {
		t.Fatalf("the breaker is %s since %v, because of %q; want %s", got.State, got.Since, got.Cause, state)
	}
}

// broken returns clients whose fleet breaker has just opened.
func broken(t *testing.T, w *wire, change ...func(*backendclient.Options)) *backendclient.Clients {
	t.Helper()
	clients := overWire(t, w, change...)
	w.answer = always(status.Error(codes.Internal, "no disk"))
	for range backendclient.DefaultSettings().Breaker.MinRequests {
		_ = call(t, clients)
	}
	mustBe(t, clients, breaker.Open)
	return clients
}

func TestCodesThatABreakerCounts(t *testing.T) {
	counted := map[codes.Code]bool{
		codes.Unavailable: true, codes.DeadlineExceeded: true, codes.Internal: true, codes.Unknown: true, codes.DataLoss: true,
		codes.Unauthenticated: true, 99: true,
	}
	for code := range codes.Code(100) {
		if code > codes.Unauthenticated && code < 99 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			clients := overWire(t, &wire{answer: always(status.Error(code, "the answer"))})
			for range 30 {
				_ = call(t, clients)
			}
			want := breaker.Closed
			if counted[code] {
				want = breaker.Open
			}
			if got := breakerOf(clients).State; got != want {
				t.Errorf("after 30 times %v the breaker is %s, want %s", code, got, want)
			}
		})
	}
}

// A service denies a resource. Where a request names none, it is the gateway that is refused, of
// all teams.
func TestPermissionDeniedWithoutAResourceIsARefusalOfTheGateway(t *testing.T) {
	for method, refused := range map[string]bool{
		"fleet/GetServer": false, "fleet/ListServerCommands": false, "incident/AddIncidentUpdate": false,
		"fleet/ListServers": true, "audit/ListAuditEntries": true, "incident/CreateIncident": true, "identity/ResolveToken": true,
	} {
		synctest.Test(t, func(t *testing.T) {
			clients := overWire(t, &wire{answer: always(status.Error(codes.PermissionDenied, "RBAC: access denied"))})
			m, err := contract.MethodNamed(method)
			testkit.Must(t, err)
			service, _, _ := strings.Cut(strings.TrimPrefix(m.Path(), "/"), "/")
			var last error
			for range 10 {
				last = backendclient.ConnectionOf(clients, service).Invoke(t.Context(), m.Path(), nil, nil)
			}
			if e := failure(t, last); e.Code != codes.PermissionDenied || e.Refused != refused || e.NamesResource == refused {
				t.Errorf("%s: %+v", method, e)
			}
			want := breaker.Status{State: breaker.Closed}
			if refused {
				want = breaker.Status{State: breaker.Open, Cause: "PermissionDenied: RBAC: access denied"}
			}
			if got := clients.Services()[m.Service()].Breaker; got.State != want.State || got.Cause != want.Cause {
				t.Errorf("%s: the breaker is %+v, want %+v", method, got, want)
			}
		})
	}
}

func TestAnOpenBreakerRefusesUntilItProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(wire)
		clients := broken(t, w)
		if s := breakerOf(clients); s.HalfOpenAt.Sub(s.Since) != 3*time.Second || s.Cause != "Internal: no disk" {
			t.Errorf("state %+v", s)
		}
		before := w.attempts.Load()
		time.Sleep(500 * time.Millisecond)
		e := failure(t, call(t, clients))
		if e.Code != codes.Unavailable || e.Reason != backendclient.ReasonBreakerOpen || e.RetryAfter != 2500*time.Millisecond {
			t.Errorf("%v, reason %q, retry after %v", e.Code, e.Reason, e.RetryAfter)
		}
		if e.Service != "fleet" || e.Method != "GetServer" || status.Code(e) != codes.Unavailable {
			t.Errorf("error %+v", e)
		}
		if w.attempts.Load() != before {
			t.Error("an attempt was made")
		}
		if _, err := clients.Identity.ResolveToken(t.Context(), &identityv1.ResolveTokenRequest{}); isRefused(t, err, e.Reason) {
			t.Error("another service's calls are refused")
		}

		time.Sleep(2500*time.Millisecond + 1)
		w.answer = always(nil)
		for range 3 {
			testkit.Must(t, call(t, clients))
		}
		mustBe(t, clients, breaker.Closed)
		if s := breakerOf(clients); s.Cause != "" || !s.HalfOpenAt.IsZero() || !s.TrippedAt.IsZero() {
			t.Errorf("state %+v", s)
		}
	})
}

func TestAFailedProbeOpensTheBreakerAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(wire)
		clients := broken(t, w)
		first := breakerOf(clients)
		time.Sleep(3*time.Second + 1)
		if e := failure(t, call(t, clients)); e.Code != codes.Internal {
			t.Errorf("the probe failed with %v", e)
		}
		if !isRefused(t, call(t, clients), backendclient.ReasonBreakerOpen) {
			t.Error("a call after the failed probe was made")
		}
		if s := breakerOf(clients); !s.TrippedAt.Equal(first.Since) || !s.Since.After(first.Since) {
			t.Errorf("it first opened at %v; now %+v", first.Since, s)
		}
	})
}

func TestAHangingProbeDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(wire)
		clients := broken(t, w)
		time.Sleep(3 * time.Second)
		w.answer = hang
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if e := failure(t, callFor(t, clients, 15*time.Second)); e.Code != codes.DeadlineExceeded {
				t.Errorf("the probe ended with %v", e)
			}
		}()
		synctest.Wait()
		mustBe(t, clients, breaker.HalfOpen)
		time.Sleep(time.Second)
		if e := failure(t, call(t, clients)); e.Reason != backendclient.ReasonBreakerOpen || e.RetryAfter != 2*time.Second {
			t.Errorf("a call beside the probe: %v, retry after %v", e, e.RetryAfter)
		}
		time.Sleep(2 * time.Second)
		w.answer = always(nil)
		for range 3 {
			testkit.Must(t, call(t, clients))
		}
		mustBe(t, clients, breaker.Closed)
		<-ended
		mustBe(t, clients, breaker.Closed)
	})
}

// Attempts that started before the breaker was half-open neither close nor open it.
func TestLateResultsDoNotChangeAHalfOpenBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		succeed, fail := make(chan struct{}), make(chan struct{})
		clients := overWire(t, &wire{byTeam: func(ctx context.Context, team string) error {
			switch team {
			case "succeeds late":
				<-succeed
				return nil
			case "fails late":
				<-fail
			case "probes":
				return hang(ctx)
			}
			return status.Error(codes.Unauthenticated, "no certificate")
		}}, func(o *backendclient.Options) { o.Retries.Max = 0 })
		for _, team := range []string{"succeeds late", "succeeds late", "succeeds late", "fails late"} {
			go func() { _ = callOf(t, clients, team, time.Minute) }()
		}
		synctest.Wait()
		for range backendclient.DefaultSettings().Breaker.MinRequests {
			_ = callOf(t, clients, "fails", time.Second)
		}
		mustBe(t, clients, breaker.Open)
		time.Sleep(3 * time.Second)
		go func() { _ = callOf(t, clients, "probes", time.Second) }()
		synctest.Wait()
		for _, release := range []chan struct{}{succeed, fail} {
			close(release)
			synctest.Wait()
			mustBe(t, clients, breaker.HalfOpen)
		}
		time.Sleep(time.Second)
	})
}

func TestACanceledProbeIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(wire)
		clients := broken(t, w)
		time.Sleep(3 * time.Second)
		w.answer = hang
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, _ = clients.Fleet.GetServer(ctx, &fleetv1.GetServerRequest{})
		w.answer = always(nil)
		testkit.Must(t, call(t, clients))
	})
}

func TestABreakerOpensOnARate(t *testing.T) {
	for _, test := range []struct {
		name           string
		good, bad, all int // numbers of calls: per round, and in total
		state          breaker.State
	}{
		{"too few to judge", 0, 9, 9, breaker.Closed},
		{"enough, and half of them fail", 5, 5, 10, breaker.Open},
		{"enough, and less than half fail", 6, 4, 1000, breaker.Closed},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := new(wire)
			clients := overWire(t, w)
			for i := range test.all {
				w.answer = always(nil)
				if i%(test.good+test.bad) >= test.good {
					w.answer = always(status.Error(codes.Internal, "no"))
				}
				_ = call(t, clients)
				time.Sleep(time.Millisecond)
			}
			if got := breakerOf(clients).State; got != test.state {
				t.Errorf("%s: the breaker is %s, want %s", test.name, got, test.state)
			}
		})
	}
}

func TestFailuresExpireWithTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: always(status.Error(codes.Internal, "no"))}
		clients := overWire(t, w)
		for range 50 {
			for range 9 {
				_ = call(t, clients)
			}
			time.Sleep(25 * time.Second)
		}
		mustBe(t, clients, breaker.Closed)
	})
}

// After a period of successes, a breaker opens long before half of the attempts in the window have
// failed.
func TestABreakerOpensWithinASecondOfAnOutage(t *testing.T) {
	for outage, want := range map[time.Duration]breaker.State{
		400 * time.Millisecond: breaker.Closed, // a process that is being replaced
		time.Second:            breaker.Open,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: always(nil)}
			clients := overWire(t, w, func(o *backendclient.Options) { o.Retries.Max = 0 })
			const pace = 5 * time.Millisecond
			for range 15 * time.Second / pace {
				_ = call(t, clients)
				time.Sleep(pace)
			}
			w.answer = always(status.Error(codes.Unavailable, "gone"))
			for range outage / pace {
				_ = call(t, clients)
				time.Sleep(pace)
			}
			if got := breakerOf(clients).State; got != want {
				t.Errorf("after an outage of %v the breaker is %s, want %s", outage, got, want)
			}
		})
	}
}

// A canceled call is canceled, whatever the service returns, and is not a failure of the service.
func TestCanceledCallsAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		clients := overWire(t, w)
		for i := range 100 {
			ctx, hangUp := context.WithCancel(t.Context())
			w.answer = func(ctx context.Context) error {
				hangUp()
				if i%2 == 0 {
					return status.Error(codes.Internal, "query interrupted")
				}
				return status.FromContextError(ctx.Err()).Err()
			}
			_, err := clients.Identity.ResolveToken(ctx, &identityv1.ResolveTokenRequest{})
			if e := failure(t, err); e.Code != codes.Canceled || !errors.Is(e, context.Canceled) || status.Code(err) != codes.Canceled {
				t.Errorf("code %v, error %v", e.Code, e)
			}
		}
		if s := clients.Services()["identity"].Breaker; s.State != breaker.Closed {
			t.Errorf("the breaker is %s", s.State)
		}
	})
}

// A client with a slow upload leaves the service no time, which is not a failure of the service.
func TestShortDeadlinesAreNotCounted(t *testing.T) {
	for timeout, want := range map[time.Duration]breaker.State{
		100 * time.Millisecond: breaker.Closed, // minus deadlineMargin
		200 * time.Millisecond: breaker.Open,
	} {
		synctest.Test(t, func(t *testing.T) {
			clients := overWire(t, &wire{answer: hang})
			for range 30 {
				if e := failure(t, callFor(t, clients, timeout)); e.Code != codes.DeadlineExceeded && e.Reason == "" {
					t.Fatal(e)
				}
			}
			if got := breakerOf(clients).State; got != want {
				t.Errorf("with %v for each call the breaker is %s, want %s", timeout, got, want)
			}
		})
	}
}

// A method fails, as writes do when a disk is full. Its breaker opens; the other methods of the
// service lose no call.
func TestAMethodThatFailsOpensItsOwnBreakerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		clients := broken(t, w)
		if s := breakerOf(clients); !slices.Equal(s.Methods, []string{"GetServer"}) {
			t.Errorf("the breakers of %v are not closed", s.Methods)
		}
		w.answer = always(nil)
		for range 100 {
			if _, err := clients.Fleet.ListServers(t.Context(), &fleetv1.ListServersRequest{}); err != nil {
				t.Fatalf("another method: %v", err)
			}
		}
		if !isRefused(t, call(t, clients), backendclient.ReasonBreakerOpen) {
			t.Error("successful calls of another method closed the breaker")
		}
		for method, want := range map[string]bool{
			"fleet/GetServer": true, "fleet/ListServers": false, "fleet/NoSuch": false, "identity/WatchRevocations": false, // a stream has no breaker
		} {
			service, name, _ := strings.Cut(method, "/")
			if got := clients.Refuses(service, name, ""); got != want {
				t.Errorf("the breaker of %s refuses: %t, want %t", method, got, want)
			}
		}
		if clients.Refuses("fleet", "GetServer", fast) {
			t.Error("it refuses a team without a failure")
		}
	})
}

func TestTheStatusIsOfTheBreakerThatRefusesMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		clients := broken(t, w)
		time.Sleep(2 * time.Second)
		for range backendclient.DefaultSettings().Breaker.MinRequests {
			_, _ = clients.Fleet.ListServers(t.Context(), &fleetv1.ListServersRequest{})
		}
		first := breakerOf(clients)
		if both := []string{"GetServer", "ListServers"}; !slices.Equal(first.Methods, both) || time.Since(first.TrippedAt) != 2*time.Second {
			t.Errorf("tripped %v ago: %v", time.Since(first.TrippedAt), first.Methods)
		}
		time.Sleep(time.Second + 1)
		w.answer = always(nil)
		testkit.Must(t, call(t, clients))
		if s := breakerOf(clients); s.State != breaker.Open || !s.TrippedAt.After(first.TrippedAt) {
			t.Errorf("one is open and one half-open, but the status is %+v", s)
		}
	})
}

// A method that is rarely called does not stay the cause of an alert until its next call.
func TestABreakerWithoutCallsCloses(t *testing.T) {
	for name, half := range map[string]bool{"open": false, "half-open": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, log, registry := new(wire), make(lines, 100), prometheus.NewRegistry()
				clients := broken(t, w, func(o *backendclient.Options) { o.Logger, o.Registerer = slog.New(log), registry })
				s := backendclient.DefaultSettings().Breaker
				if half {
					w.answer = always(nil)
					time.Sleep(s.OpenFor + 1)
					testkit.Must(t, call(t, clients))
				}
				time.Sleep(s.OpenFor + s.Window - time.Millisecond)
				if breakerOf(clients).State == breaker.Closed {
					t.Error("it closed before its window ended")
				}
				time.Sleep(2 * time.Millisecond)
				synctest.Wait()
				mustBe(t, clients, breaker.Closed)
				if series(t, registry, "opsgate_upstream_breaker_state")["service=fleet state=closed"] != 1 {
					t.Error("the metric has another state")
				}
				const want = "circuit breaker is closed service=fleet method=GetServer reason=its failures are older than its window"
				if line := lastLine(log); line != want {
					t.Errorf("logged %q", line)
				}
			})
		})
	}
}

// Calls that began before the change do not count.
func TestChangedBreakerSettingsCloseTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, log, registry := new(wire), make(lines, 100), prometheus.NewRegistry()
		clients := broken(t, w, func(o *backendclient.Options) { o.Logger, o.Registerer = slog.New(log), registry })
		w.answer = func(context.Context) error {
			time.Sleep(500 * time.Millisecond)
			return status.Error(codes.Unauthenticated, "no certificate")
		}
		for i := range 20 {
			go func() { _ = callOf(t, clients, fmt.Sprint("team-", i), time.Second) }()
		}
		synctest.Wait()
		s := backendclient.DefaultSettings()
		s.MaxInFlight = 700
		clients.Apply(s)
		if !isRefused(t, call(t, clients), backendclient.ReasonBreakerOpen) {
			t.Error("a change of other settings closed the breaker")
		}
		s.Breaker.OpenFor = time.Minute
		clients.Apply(s)
		mustBe(t, clients, breaker.Closed)
		if series(t, registry, "opsgate_upstream_breaker_state")["service=fleet state=closed"] != 1 {
			t.Error("the metric has another state")
		}
		if line := lastLine(log); !strings.Contains(line, "circuit breaker is closed service=fleet method=GetServer reason=its settings were changed") {
			t.Errorf("logged %q", line)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		mustBe(t, clients, breaker.Closed)
		if line := lastLine(log); line != "" {
			t.Errorf("logged %q", line)
		}
	})
}

// lastLine returns the last line that was logged.
func lastLine(log lines) (last string) {
	for len(log) > 0 {
		if line := <-log; strings.HasPrefix(line, "circuit") {
			last = line
		}
	}
	return last
}

func TestABreakersChangesAreLoggedAndMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, log, registry := new(wire), make(lines, 100), prometheus.NewRegistry()
		is := func(state breaker.State, reason string) {
			t.Helper()
			if got, want := lastLine(log), "circuit breaker is "+string(state)+" service=fleet method=GetServer reason="+reason; got != want {
				t.Errorf("logged %q, want %q", got, want)
			}
			for series, value := range series(t, registry, "opsgate_upstream_breaker_state") {
				if service := strings.Contains(series, "service=fleet"); service && (value == 1) != strings.HasSuffix(series, "state="+string(state)) {
					t.Errorf("%s is %v", series, value)
				}
			}
		}
		clients := broken(t, w, func(o *backendclient.Options) { o.Logger, o.Registerer = slog.New(log), registry })
		is(breaker.Open, "Internal: no disk")
		_ = call(t, clients)
		if n := series(t, registry, "opsgate_upstream_refused_requests_total")["reason=breaker_open service=fleet"]; n != 1 {
			t.Errorf("%v refused, want 1", n)
		}
		time.Sleep(3*time.Second + 1)
		w.answer = always(nil)
		_ = call(t, clients)
		is(breaker.HalfOpen, "it was open for 3s")
		_, _ = call(t, clients), call(t, clients)
		is(breaker.Closed, "attempts succeed")
	})
}
