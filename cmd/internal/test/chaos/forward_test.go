package chaos

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"opsgate/backendclient/testkit"
	"opsgate/backendclient/testkit/grpctest"
)

// A call is a call that a forwarder has received, or a stream of revocations.
type call struct {
	context.Context

	method  string // its last part
	request []byte
	forward func(context.Context) error // sends it to the backend, and the responses to the gateway
	respond func(message []byte) error
}

// isLookup reports whether it looks up a token. A probe has no deadline.
func (c *call) isLookup() bool {
	_, isCall := c.Deadline()
	return isCall && c.method == "ResolveToken"
}

// isOperation reports whether it is a call to another service than identity.
func (c *call) isOperation() bool {
	_, isCall := c.Deadline()
	return isCall && c.method != "ResolveToken"
}

// startForwarder serves all internal services on loopback until the test ends, and returns its address. It calls handle for each call but
// those of gRPC's own services, which it does not have: clients treat it as healthy.
func startForwarder(t *testing.T, to string, handle func(*call) error) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	forwardFrom(t, listener, to, handle)
	return listener.Addr().String()
}

// forwardFrom is startForwarder on a listener.
func forwardFrom(t *testing.T, listener net.Listener, to string, handle func(*call) error) (stop func()) {
	t.Helper()
	conn, err := grpc.NewClient(to, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	testkit.Must(t, err)
	server := grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(func(_ any, in grpc.ServerStream) error {
		full, _ := grpc.MethodFromServerStream(in)
		if strings.HasPrefix(full, "/grpc.") {
			return status.Error(codes.Unimplemented, "unknown")
		}
		c := &call{Context: in.Context(), method: full[strings.LastIndex(full, "/")+1:]}
		c.respond = func(message []byte) error { return in.SendMsg(&message) }
		c.forward = func(ctx context.Context) error { return forward(ctx, conn, full, c) }
		if err := in.RecvMsg(&c.request); err != nil {
			return err
		}
		return handle(c)
	}))
	t.Cleanup(func() { testkit.Must(t, conn.Close()) })
	grpctest.Serve(t, server, listener)
	return server.Stop
}

// forward sends a call to a backend, and its responses to the gateway.
func forward(ctx context.Context, conn *grpc.ClientConn, method string, c *call) error {
	header, _ := metadata.FromIncomingContext(ctx)
	out, err := conn.NewStream(metadata.NewOutgoingContext(ctx, header), &grpc.StreamDesc{ServerStreams: true}, method)
	if err == nil {
		err = errors.Join(out.SendMsg(&c.request), out.CloseSend())
	}
	for err == nil {
		var response []byte
		if err = out.RecvMsg(&response); err == nil {
			err = c.respond(response)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// raw is the codec of messages that are not decoded.
type raw struct{}

// Marshal implements encoding.Codec.
func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

// Unmarshal implements encoding.Codec.
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data)
	return nil
}

// Name implements encoding.Codec.
func (raw) Name() string { return "proto" }

// startFake is a forwarder to the shared backend that calls do instead for each call to another service than identity.
func startFake(t *testing.T, do func(context.Context) error) (address string) {
	t.Helper()
	return startForwarder(t, shared.address, func(c *call) error {
		if c.isOperation() {
			return do(c)
		}
		return c.forward(c)
	})
}

// relay forwards calls to the identity service; lookups take longer. After mute, it refuses the revocation stream.
type relay struct {
	address string
	slow    time.Duration
	muted   context.Context
	mute    func()

	inFlight, maxInFlight atomic.Int64
}

func startRelay(t *testing.T, to string, slow time.Duration) *relay {
	t.Helper()
	r := &relay{slow: slow}
	r.muted, r.mute = context.WithCancel(t.Context())
	r.address = startForwarder(t, to, r.handle)
	return r
}

func (r *relay) handle(c *call) error {
	if c.isLookup() {
		now := r.inFlight.Add(1)
		defer r.inFlight.Add(-1)
		for highest := r.maxInFlight.Load(); now > highest && !r.maxInFlight.CompareAndSwap(highest, now); highest = r.maxInFlight.Load() {
		}
		select {
		case <-time.After(r.slow):
		case <-c.Done():
		}
	}
	if c.method != "WatchRevocations" {
		return c.forward(c)
	}
	ctx, cancel := context.WithCancel(c)
	defer cancel()
	defer context.AfterFunc(r.muted, cancel)()
	err := c.forward(ctx)
	if r.muted.Err() != nil {
		return status.Error(codes.Unavailable, "muted")
	}
	return err
}
