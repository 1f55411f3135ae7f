package backendclient

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// Calls end on a broken connection before its state changes, and calls with little time end on a busy machine: neither is a sign of a bad
// endpoint. The other endpoint answers all calls.
func TestFailuresThatEject(t *testing.T) {
	for _, test := range []struct {
		name            string
		code            codes.Code
		received, short bool
		ejections       int
	}{
		{"the connection broke", codes.Unavailable, false, false, 0},
		{"the service answered that it is unavailable", codes.Unavailable, true, false, 1},
		{"the caller had little time", codes.DeadlineExceeded, false, true, 0},
		{"the caller had little time, and the service answered that it is over", codes.DeadlineExceeded, true, true, 0},
		{"the call hung", codes.DeadlineExceeded, false, false, 1},
		{"the stream was reset", codes.Internal, false, false, 1},
		{"a code that does not exist", codes.Code(42), true, false, 1},
		{"the caller had little time, and the service failed", codes.Internal, true, true, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &endpoints{
				logger: slog.New(slog.DiscardHandler), ejections: prometheus.NewCounter(prometheus.CounterOpts{Name: "x"}),
				outliers: outliers{unit: time.Minute},
			}
			bad, good := s.newEndpoint("bad"), s.newEndpoint("good")
			s.outliers.setMembers([]*endpoint{bad, good}, time.Now())
			end := bad.done[callKind{}]
			if test.short {
				end = bad.done[callKind{shortTimeout: true}]
			}
			for range 2 * minFailures {
				end(balancer.DoneInfo{Err: status.Error(test.code, "x"), BytesReceived: test.received})
				good.done[callKind{}](balancer.DoneInfo{BytesReceived: true})
			}
			if bad.ejections != test.ejections || bad.isEjected() != (test.ejections > 0) {
				t.Errorf("%d ejections, ejected: %v", bad.ejections, bad.isEjected())
			}
		})
	}
}

// If a connection breaks between the pick and the call, gRPC ends the pick without an error. That must not make other endpoints outliers.
func TestAPickWithoutAnAnswerIsNoSuccess(t *testing.T) {
	for _, test := range []struct {
		name      string
		info      balancer.DoneInfo
		successes int64
	}{
		{"no call was made", balancer.DoneInfo{}, 0},
		{"the call was not sent", balancer.DoneInfo{Err: status.Error(codes.ResourceExhausted, "too large")}, 0},
		{"canceled", balancer.DoneInfo{Err: status.Error(codes.Canceled, ""), BytesReceived: true}, 0},
		{"success", balancer.DoneInfo{BytesReceived: true}, 1},
		{"an answer of the service", balancer.DoneInfo{Err: status.Error(codes.NotFound, ""), BytesReceived: true}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := new(endpoints)
			e := s.newEndpoint("a")
			e.failures.Store(3)
			e.inFlight.Add(1)
			e.done[callKind{}](test.info)
			reset := e.failures.Load() == 0
			if got := s.outliers.successes.Load(); got != test.successes || reset != (got > 0) || e.inFlight.Load() != 0 {
				t.Errorf("%d successes, %d failures, %d in flight", got, e.failures.Load(), e.inFlight.Load())
			}
		})
	}
}

// A probe that ends after its endpoint was connected again may have been answered by another program.
func TestALateProbeIsIgnored(t *testing.T) {
	u := &upstream{service: "audit", logger: slog.New(slog.DiscardHandler)}
	s := &endpoints{logger: u.logger, onReady: func() {}, updated: make(chan struct{}), outliers: outliers{unit: time.Minute}}
	e := s.newEndpoint("a")
	s.add(e, nil)
	connect := func() int {
		s.update(e, balancer.SubConnState{ConnectivityState: connectivity.TransientFailure})
		s.update(e, balancer.SubConnState{ConnectivityState: connectivity.Ready})
		return e.generation
	}
	first, second := connect(), connect()
	for generation, want := range map[int]bool{first: false, second: true} {
		e.rightService = false
		if u.recordProbe(t.Context(), s, e, generation, nil); e.rightService != want {
			t.Errorf("a probe of connection %d of 2 is used: %t", generation, !want)
		}
	}
}
