// Package grpctest runs gRPC servers in tests.
package grpctest

import (
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc"
)

// Serve serves on the listener until the end of the test, which fails if serving does.
func Serve(t testing.TB, server *grpc.Server, listener net.Listener) {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // it was stopped before it served
			t.Errorf("serve gRPC: %v", err)
		}
	})
}
