package tracingtest

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"opsgate/internal/testkit"
	"opsgate/internal/testkit/grpctest"
)

// A Relay hands calls on to an internal service, or fails them in its place. It is safe for
// concurrent use.
type Relay struct {
	Address string

	service *grpc.ClientConn
	mu      sync.Mutex
	calls   []Call
	failing map[string]int
}

// A Call has the metadata of a call, which a service receives before the request.
type Call struct {
	Method      string // "/ops.fleet.v1.FleetService/GetServer"
	Traceparent string // "" for none
	Tracestate  string
	RequestID   string
}

// StartRelay starts a relay to the service at the address. It ends with the test.
func StartRelay(t testing.TB, address string) *Relay {
	t.Helper()
	service, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(asIs{})))
	testkit.Must(t, err)
	r := &Relay{service: service, failing: make(map[string]int)}
	listener := listen(t)
	r.Address = listener.Addr().String()
	server := grpc.NewServer(grpc.ForceServerCodecV2(asIs{}), grpc.UnknownServiceHandler(r.handle))
	t.Cleanup(func() { _ = service.Close() })
	grpctest.Serve(t, server, listener)
	return r
}

// Fail has the next calls of a method fail, as those of a service that goes away.
func (r *Relay) Fail(method string, times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing[method] = times
}

// Calls returns the calls of a method, without probes, in the order that they came in.
func (r *Relay) Calls(method string) (calls []Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if c.Method == method {
			calls = append(calls, c)
		}
	}
	return calls
}

// handle hands on a call that has one request, and any number of answers.
func (r *Relay) handle(_ any, caller grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(caller)
	headers, _ := metadata.FromIncomingContext(caller.Context())
	first := func(name string) string { return strings.Join(headers.Get(name), "|") }
	var message []byte
	if err := caller.RecvMsg(&message); err != nil {
		return err
	}
	probe := len(message) == 0
	if !probe && r.note(Call{method, first("traceparent"), first("tracestate"), first("x-request-id")}) {
		return status.Error(codes.Unavailable, "going away")
	}
	service, err := r.service.NewStream(caller.Context(), &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := errors.Join(service.SendMsg(&message), service.CloseSend()); err != nil {
		return err
	}
	for {
		switch err := service.RecvMsg(&message); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := caller.SendMsg(&message); err != nil {
			return err
		}
	}
}

// note records a call, and reports whether it is to fail.
func (r *Relay) note(c Call) (fail bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
	fail = r.failing[c.Method] > 0
	r.failing[c.Method]--
	return fail
}

// asIs leaves messages as they are on the wire.
type asIs struct{}

// Marshal implements [encoding.CodecV2].
func (asIs) Marshal(message any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*message.(*[]byte))}, nil
}

// Unmarshal implements [encoding.CodecV2].
func (asIs) Unmarshal(data mem.BufferSlice, message any) error {
	*message.(*[]byte) = data.Materialize()
	return nil
}

// Name implements [encoding.CodecV2].
func (asIs) Name() string { return "proto" }
