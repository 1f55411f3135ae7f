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
// Behind bound stands the service's guard, all of it under the deadline: the bound on calls in flight, which holds a call from its
// first attempt to the end of the last; then the retries; then the breaker, next to the wire, so that every attempt passes and
// counts. What they refuse is a status like any other, and describe makes it one of ours. They are no interceptors of their own,
// as each of those costs a call an allocation.
//
// What bounds a call comes with it, from the [Settings] of the client that makes it, while what guards remember belongs to the
// connection.
//
// Streams live as long as their caller wants, so they have no deadline, their duration says nothing, and a breaker that waited for
// their end would learn nothing from them.
func interceptors(calls calls) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(
			calls.measure,
			calls.describe,
			calls.bound,
		),
		grpc.WithChainStreamInterceptor(
			calls.describeStream,
		),
	}
}

// bound has a call end a margin before its caller's deadline, or after the default timeout where the caller has none, and hands it
// to the service's guard.
func (c calls) bound(
	ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	under := settingsOf(options)
	var cancel context.CancelFunc
	if deadline, ok := ctx.Deadline(); ok {
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-under.DeadlineMargin))
	} else {
		ctx, cancel = context.WithTimeout(ctx, under.DefaultTimeout)
	}
	defer cancel()
	call := c[method]
	return call.guard.do(&attempt{
		ctx: ctx, call: call, under: under,
		method: method, request: request, reply: reply, connection: cc, invoke: invoke, options: options,
	})
}
