package backendclient

import (
	"testing"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

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
			e.done(test.info)
			reset := e.failures.Load() == 0
			if got := s.outliers.successes.Load(); got != test.successes || reset != (got > 0) || e.inFlight.Load() != 0 {
				t.Errorf("%d successes, %d failures, %d in flight", got, e.failures.Load(), e.inFlight.Load())
			}
		})
	}
}
