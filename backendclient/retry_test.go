package backendclient_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"opsgate/backendclient"
	"opsgate/internal/testkit"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

var unavailable = status.Error(codes.Unavailable, "gone")

// inTurn returns the answers in sequence, and then always the last one.
func inTurn(answers ...error) func(context.Context) error {
	return func(context.Context) error {
		answer := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		return answer
	}
}

func createIncident(key string) func(context.Context, *backendclient.Clients) error {
	return func(ctx context.Context, c *backendclient.Clients) error {
		_, err := c.Incident.CreateIncident(ctx, &incidentv1.CreateIncidentRequest{IdempotencyKey: key})
		return err
	}
}

func TestRetryableCalls(t *testing.T) {
	read := func(ctx context.Context, c *backendclient.Clients) error {
		_, err := c.Fleet.GetServer(ctx, &fleetv1.GetServerRequest{})
		return err
	}
	busy, err := status.New(codes.Unavailable, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	testkit.Must(t, err)
	for _, test := range []struct {
		name     string
		call     func(context.Context, *backendclient.Clients) error
		answer   func(context.Context) error
		attempts int64
		code     codes.Code
	}{
		{"a read, until it succeeds", read, inTurn(unavailable, unavailable, nil), 3, codes.OK},
		{"a read, and no more", read, always(unavailable), 3, codes.Unavailable},
		{"until another failure", read, inTurn(unavailable, status.Error(codes.NotFound, "none")), 2, codes.NotFound},
		{"not a read that the service wants to wait", read, always(busy.Err()), 1, codes.Unavailable},
		{"not a write", createIncident(""), always(unavailable), 1, codes.Unavailable},
		{"a write with a key", createIncident("k"), inTurn(unavailable, unavailable, nil), 3, codes.OK},
		{"a write with a key that is still being worked on", createIncident("k"),
			inTurn(unavailable, status.Error(codes.Aborted, "in flight")), 2, codes.Unavailable},
		{"not a write with a key that was so from the start", createIncident("k"),
			always(status.Error(codes.Aborted, "in flight")), 1, codes.Aborted},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answer: test.answer}
				err := test.call(t.Context(), overWire(t, w))
				if status.Code(err) != test.code || w.attempts.Load() != test.attempts {
					t.Errorf("%v after %d attempts, want %v after %d", err, w.attempts.Load(), test.code, test.attempts)
				}
			})
		})
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		if code == codes.Unavailable {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: always(status.Error(code, "no"))}
			_ = call(t, overWire(t, w))
			if n := w.attempts.Load(); n != 1 {
				t.Errorf("%v: %d attempts, want 1", code, n)
			}
		})
	}
}

// Each method is listed by decision: a new write must be added here.
func TestReadOnlyMethods(t *testing.T) {
	writes := []string{"CreateIncident", "AddIncidentUpdate"}
	synctest.Test(t, func(t *testing.T) {
		w := new(wire)
		w.answer = func(context.Context) error {
			if w.attempts.Load() == 1 {
				return unavailable
			}
			return nil
		}
		clients := overWire(t, w, func(o *backendclient.Options) { o.Breaker.MinRequests, o.Retries.Budget = 1000, 1 })
		for _, service := range []grpc.ServiceDesc{
			fleetv1.FleetService_ServiceDesc, monitoringv1.MonitoringService_ServiceDesc, incidentv1.IncidentService_ServiceDesc,
			auditv1.AuditService_ServiceDesc, identityv1.IdentityService_ServiceDesc,
		} {
			for _, m := range service.Methods {
				w.attempts.Store(0)
				_ = backendclient.ConnectionOf(clients, service.ServiceName).Invoke(t.Context(), "/"+service.ServiceName+"/"+m.MethodName, nil, nil)
				want := int64(2)
				if slices.Contains(writes, m.MethodName) {
					want = 1
				}
				if got := w.attempts.Load(); got != want {
					t.Errorf("%s: %d attempts, want %d", m.MethodName, got, want)
				}
			}
		}
	})
}

func TestRetriesBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times []time.Duration
		begin := time.Now()
		w := &wire{answer: func(context.Context) error {
			times = append(times, time.Since(begin))
			return unavailable
		}}
		_ = callFor(t, overWire(t, w, func(o *backendclient.Options) {
			o.Retries = backendclient.RetrySettings{Max: 5, Budget: 1}
		}), time.Hour)
		if len(times) != 6 {
			t.Fatalf("%d attempts", len(times))
		}
		for i := range 5 {
			wait, base := times[i+1]-times[i], 25*time.Millisecond<<i
			if wait < base/2 || wait > base*3/2 {
				t.Errorf("%v before attempt %d, want %v ± 50 %%", wait, i+2, base)
			}
		}
	})
}

// A call waits for no retry beyond its deadline, or after it was canceled.
func TestARetryIsNotAwaitedInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := overWire(t, &wire{answer: always(unavailable)})
		begin := time.Now()
		if e := failure(t, callFor(t, clients, 20*time.Millisecond)); e.Code != codes.Unavailable || time.Since(begin) != 0 {
			t.Errorf("%v after %v", e, time.Since(begin))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, err := clients.Fleet.GetServer(ctx, &fleetv1.GetServerRequest{})
		if e := failure(t, err); !errors.Is(e, context.Canceled) || time.Since(begin) != time.Millisecond {
			t.Errorf("canceled: %v after %v", e, time.Since(begin))
		}
	})
}

// Half a minute of Unavailable, at a high and a low rate, with and without a breaker.
func TestAnOutageCausesFewRetries(t *testing.T) {
	for _, test := range []struct {
		pace    time.Duration
		breaker int // MinRequests
		most    float64
	}{
		{3 * time.Millisecond, 10, .1},
		{500 * time.Millisecond, 10, 1},
		{3 * time.Millisecond, 1 << 30, 1.2},
		{100 * time.Millisecond, 1 << 30, 1.2},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, registry := &wire{answer: always(unavailable)}, prometheus.NewRegistry()
			clients := overWire(t, w, func(o *backendclient.Options) { o.Breaker.MinRequests, o.Registerer = test.breaker, registry })
			requests := 0
			for begin := time.Now(); time.Since(begin) < 30*time.Second; time.Sleep(test.pace) {
				go func() { _ = call(t, clients) }()
				requests++
			}
			synctest.Wait()
			ratio := float64(w.attempts.Load()) / float64(requests)
			t.Logf("a request every %v: %d attempts for %d requests, %.3f", test.pace, w.attempts.Load(), requests, ratio)
			if ratio > test.most {
				t.Errorf("%.3f attempts a request, want at most %v", ratio, test.most)
			}
			retries := series(t, registry, "opsgate_upstream_retries_total")["service=fleet"]
			withheld := series(t, registry, "opsgate_upstream_retries_withheld_total")["service=fleet"]
			if test.breaker == 1<<30 && (int64(retries) != w.attempts.Load()-int64(requests) || withheld == 0) {
				t.Errorf("%v retries and %v withheld are counted", retries, withheld)
			}
		})
	}
}

func TestTheRetryBudgetIsRefilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(wire)
		clients := overWire(t, w, func(o *backendclient.Options) { o.Breaker.MinRequests = 1 << 30 })
		attempts := func(calls int, answer error) int64 {
			w.answer = always(answer)
			w.attempts.Store(0)
			for range calls {
				_ = call(t, clients)
			}
			return w.attempts.Load()
		}
		if n := attempts(1000, unavailable); n != 1002 {
			t.Errorf("%d attempts for 1000 calls that fail, want 1002: the first one empties the budget", n)
		}
		attempts(15, nil)
		if n := attempts(2, unavailable); n != 3 {
			t.Errorf("%d attempts for two calls after 15 that succeeded, want 3", n)
		}
		attempts(20, nil)
		if n := attempts(2, unavailable); n != 4 {
			t.Errorf("%d attempts for two calls after 20 that succeeded, want 4", n)
		}
	})
}
