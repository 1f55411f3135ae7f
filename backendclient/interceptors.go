package backendclient

import (
	"context"

	"google.golang.org/grpc"
)

// interceptors is the way of every call, from the caller to the wire. The order is the design:
//
//   - measure sees what the caller sees: the code after it has been put right, the time with all attempts;
//   - describe turns whatever fails further in, on this side or the other, into an *Error;
//   - bound gives the call its deadline, which all attempts share.
//
// Retries belong after bound, under the deadline. A breaker and a bound on calls in flight belong after them, next to the
// wire, so that every attempt passes and counts; what they refuse is a status like any other, and describe makes it one of
// ours.
//
// What bounds a call comes with it, from the [Settings] of the client that makes it: bounds of retries and of a breaker would
// come the same way, while what they remember belongs to the connection.
//
// Streams live as long as their caller wants, so they have no deadline, and their duration says nothing.
func interceptors(calls calls) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(
			calls.measure,
			calls.describe,
			bound,
		),
		grpc.WithChainStreamInterceptor(
			calls.describeStream,
		),
	}
}

// bound has a call end a margin before its caller's deadline, or after the default timeout where the caller has none.
func bound(
	ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	settings := settingsOf(options)
	var cancel context.CancelFunc
	if deadline, ok := ctx.Deadline(); ok {
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-settings.DeadlineMargin))
	} else {
		ctx, cancel = context.WithTimeout(ctx, settings.DefaultTimeout)
	}
	defer cancel()
	return invoke(ctx, method, request, reply, cc, options...)
}
