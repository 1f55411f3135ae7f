package backendclient

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/backendclient/endpoints"
)

// Calls end on a broken connection before its state changes, and calls with little time end on a
// busy machine: neither is a sign of a bad endpoint. If a connection breaks between the pick and
// the call, gRPC ends the pick without an error, which is no sign of a good one either.
func TestWhatACallShowsOfItsEndpoint(t *testing.T) {
	for _, test := range []struct {
		name            string
		code            codes.Code
		received, short bool
		want            endpoints.Result
	}{
		{"success", codes.OK, true, false, endpoints.Success},
		{"an answer of the service", codes.NotFound, true, false, endpoints.Success},
		{"a resource is denied", codes.PermissionDenied, true, false, endpoints.Success},
		{"the gateway is refused", codes.Unauthenticated, true, false, endpoints.Failure},
		{"no call was made", codes.OK, false, false, endpoints.Inconclusive},
		{"the call was not sent", codes.ResourceExhausted, false, false, endpoints.Inconclusive},
		{"canceled", codes.Canceled, true, false, endpoints.Inconclusive},
		{"the connection broke", codes.Unavailable, false, false, endpoints.OtherFailure},
		{"the service answered that it is unavailable", codes.Unavailable, true, false, endpoints.Failure},
		{"the caller had little time", codes.DeadlineExceeded, false, true, endpoints.OtherFailure},
		{"the caller had little time, and the service answered that it is over", codes.DeadlineExceeded, true, true, endpoints.OtherFailure},
		{"the call hung", codes.DeadlineExceeded, false, false, endpoints.Failure},
		{"the stream was reset", codes.Internal, false, false, endpoints.Failure},
		{"a code that does not exist", codes.Code(42), true, false, endpoints.Failure},
		{"the caller had little time, and the service failed", codes.Internal, true, true, endpoints.Failure},
	} {
		timeout := time.Minute
		if test.short {
			timeout = minAttemptTime
		}
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		c, began := &callContext{Context: ctx, namesResource: true}, time.Now()
		got := c.Ended(balancer.DoneInfo{Err: status.Error(test.code, "x"), BytesReceived: test.received}, began)
		if cancel(); got != test.want || c.answered != test.received {
			t.Errorf("%s: result %d, want %d", test.name, got, test.want)
		}
	}
	list := &callContext{Context: t.Context()}
	denied := balancer.DoneInfo{Err: status.Error(codes.PermissionDenied, "RBAC: access denied"), BytesReceived: true}
	if got := list.Ended(denied, time.Now()); got != endpoints.Failure {
		t.Errorf("a list is denied: result %d", got)
	}
}
