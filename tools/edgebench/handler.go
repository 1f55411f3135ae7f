package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// A newHandler returns a handler that translates HTTP requests into calls of a backend.
type newHandler func(ctx context.Context, backend *grpc.ClientConn) (http.Handler, error)

// serve serves requests on the listener until the context ends.
func (f newHandler) serve(ctx context.Context, lis net.Listener, backend string) error {
	conn, err := grpc.NewClient(backend, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return fmt.Errorf("connect to backend %s: %w", backend, err)
	}
	defer func() { _ = conn.Close() }()
	handler, err := f(ctx, conn)
	if err != nil {
		return err
	}

	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve in front of the backend: %w", err)
	}
	return nil
}
