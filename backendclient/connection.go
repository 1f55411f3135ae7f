package backendclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"opsgate/backendclient/endpoints"
)

// A connection is a gRPC connection to the address of a service. When a connection is replaced, its
// streams end at once. It closes when its unary calls, which all have deadlines, have ended.
type connection struct {
	target    Target
	grpc      *grpc.ClientConn
	endpoints *endpoints.Set

	ctx    context.Context //nolint:containedctx // ends when the connection is replaced, and with Clients.Close
	cancel context.CancelFunc

	users sync.RWMutex // read-locked from acquire to release; closeWhenUnused locks it and never unlocks it
}

// errEnded ends the streams of a connection that was replaced, or closed with Clients.Close. After
// a replacement, the caller opens a new stream.
var errEnded = status.Error(codes.Unavailable, "the address of the service was changed, or its client was closed")

// newConnection returns a connection that is not connected yet.
func (c *Clients) newConnection(u *upstream, target Target) (*connection, error) {
	if target.Address == "" {
		return nil, fmt.Errorf("dial %s: no address", u.service)
	}
	conn := &connection{target: target, endpoints: endpoints.New(endpoints.Options{
		Service: u.service, TLS: target.TLS, Intervals: c.options.intervals.Intervals, Logger: u.logger,
		Ejections: u.metrics.ejections, FailedLookups: u.metrics.failedLookups,
		RequestProbes: u.requestProbes, Describe: describe,
	})}
	options, err := dialOptions(c.options, u, conn)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", u.service, err)
	}
	if conn.grpc, err = grpc.NewClient(target.Address, options...); err != nil {
		return nil, fmt.Errorf("dial %s at %q: %w", u.service, target.Address, err)
	}
	conn.ctx, conn.cancel = context.WithCancel(c.ctx)
	return conn, nil
}

// acquire returns the current connection, which does not close before the caller calls its release.
func (u *upstream) acquire() *connection {
	for {
		if c := u.connection.Load(); c.users.TryRLock() { // it fails only if the connection was replaced in between
			return c
		}
	}
}

func (c *connection) release() { c.users.RUnlock() }

// await waits until the state of the connection meets the condition, at most until ctx ends.
func (c *connection) await(ctx context.Context, condition func(connectivity.State) bool) {
	for state := c.grpc.GetState(); !condition(state) && c.grpc.WaitForStateChange(ctx, state); {
		state = c.grpc.GetState()
	}
}

// Invoke implements [grpc.ClientConnInterface].
func (u *upstream) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	c := u.acquire()
	defer c.release()
	return c.grpc.Invoke(ctx, method, request, reply, options...)
}

// NewStream implements [grpc.ClientConnInterface].
func (u *upstream) NewStream(
	ctx context.Context, description *grpc.StreamDesc, method string, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c := u.acquire()
	defer c.release()
	return c.grpc.NewStream(ctx, description, method, options...)
}

// interceptStream returns the [grpc.StreamClientInterceptor] of the connection. Errors of opening
// and of RecvMsg, except io.EOF, have type *Error. A stream ends when the connection is replaced,
// and with Clients.Close.
func (u *upstream) interceptStream(c *connection) grpc.StreamClientInterceptor {
	return func(
		ctx context.Context, description *grpc.StreamDesc, cc *grpc.ClientConn, fullMethod string, open grpc.Streamer,
		options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		s := &stream{method: u.methods[methodName(fullMethod)], callerCtx: ctx, connection: c}
		ctx, s.cancel = context.WithCancel(ctx)
		stop := context.AfterFunc(c.ctx, s.cancel)
		context.AfterFunc(ctx, func() { stop() }) // so that c.ctx, which outlives the stream, does not refer to the stream
		inner, err := open(ctx, description, cc, fullMethod, u.settings.Load().callOptions(options)...)
		if err != nil {
			return nil, s.fail(err)
		}
		s.ClientStream = inner
		return s, nil
	}
}

type stream struct {
	grpc.ClientStream

	method     *method
	callerCtx  context.Context //nolint:containedctx // the stream's own context is done by the time of an error
	connection *connection
	cancel     context.CancelFunc
}

// RecvMsg implements [grpc.ClientStream].
func (s *stream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) { // a regular end
		s.cancel()
		return err
	}
	return s.fail(err)
}

// fail ends the stream, and returns its error.
func (s *stream) fail(err error) error {
	if status.Code(err) == codes.Canceled && s.connection.ctx.Err() != nil {
		err = errEnded
	}
	s.cancel()
	return newError(s.callerCtx.Err(), s.method, err)
}
