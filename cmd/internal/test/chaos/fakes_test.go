package chaos

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// startFake serves all internal services, calls do for each call, and returns its address. It has no health service, so clients treat it
// as healthy.
func startFake(t *testing.T, do func(context.Context) error) (address string) {
	t.Helper()
	return serve(t, grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if method, _ := grpc.MethodFromServerStream(stream); strings.HasPrefix(method, "/grpc.") {
			return status.Error(codes.Unimplemented, "unknown")
		}
		if err := stream.RecvMsg(new(emptypb.Empty)); err != nil {
			return err
		}
		return do(stream.Context())
	})))
}

// serve serves on loopback until the test ends, and returns the address.
func serve(t *testing.T, server *grpc.Server) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// withSharedIdentity returns services at an address, with the identity service of the shared backend.
func withSharedIdentity(address string) services {
	s := everyService(address)
	s.identity = shared.address
	return s
}
