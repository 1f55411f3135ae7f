package backendclient

import (
	"context"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// Calls end on a broken connection before its state changes, and calls with little time end on a
// busy machine: neither is a sign of a bad endpoint. The other endpoint answers all calls.
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
			bad, good := newEndpoint("bad"), newEndpoint("good")
			s.outliers.setMembers([]*endpoint{bad, good}, time.Now())
			timeout := time.Minute
			if test.short {
				timeout = minAttemptTime
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			c := &callContext{Context: ctx}
			for range 2 * minFailures {
				began := time.Now()
				s.end(bad, c, began, balancer.DoneInfo{Err: status.Error(test.code, "x"), BytesReceived: test.received})
				s.end(good, c, began, balancer.DoneInfo{BytesReceived: true})
			}
			if bad.ejections != test.ejections || bad.isEjected() != (test.ejections > 0) {
				t.Errorf("%d ejections, ejected: %v", bad.ejections, bad.isEjected())
			}
		})
	}
}

// If a connection breaks between the pick and the call, gRPC ends the pick without an error. That
// must not make other endpoints outliers.
func TestAPickWithoutAnAnswerIsNoSuccess(t *testing.T) {
	for _, test := range []struct {
		name    string
		info    balancer.DoneInfo
		success bool
	}{
		{"no call was made", balancer.DoneInfo{}, false},
		{"the call was not sent", balancer.DoneInfo{Err: status.Error(codes.ResourceExhausted, "too large")}, false},
		{"canceled", balancer.DoneInfo{Err: status.Error(codes.Canceled, ""), BytesReceived: true}, false},
		{"success", balancer.DoneInfo{BytesReceived: true}, true},
		{"an answer of the service", balancer.DoneInfo{Err: status.Error(codes.NotFound, ""), BytesReceived: true}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, e, other := new(endpoints), newEndpoint("a"), newEndpoint("b")
			s.outliers.setMembers([]*endpoint{e, other}, time.Now())
			failed := map[string]calls{"": {failures: 1}}
			e.calls, other.calls, e.inFlight = maps.Clone(failed), maps.Clone(failed), 1
			s.end(e, &callContext{Context: t.Context()}, time.Now(), test.info)
			reset, elsewhere := len(e.calls) == 0, other.calls[""].successesElsewhere == 1
			if reset != test.success || elsewhere != test.success || e.inFlight != 0 {
				t.Errorf("counted here: %t, there: %t; %d in flight", reset, elsewhere, e.inFlight)
			}
		})
	}
}

// A probe that ends after its endpoint was connected again may have been answered by another
// program.
func TestALateProbeIsIgnored(t *testing.T) {
	u := &upstream{service: "audit", logger: slog.New(slog.DiscardHandler)}
	s := &endpoints{logger: u.logger, probe: func() {}, updated: make(chan struct{}), outliers: outliers{unit: time.Minute}}
	e := newEndpoint("a")
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
