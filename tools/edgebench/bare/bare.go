package bare

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fleetgw "opsgate/tools/edgebench/bare/ops/fleet/v1"
	incidentgw "opsgate/tools/edgebench/bare/ops/incident/v1"
)

// Serve translates HTTP on the listener into calls of the backend until the context ends.
func Serve(ctx context.Context, lis net.Listener, backend string) error {
	conn, err := grpc.NewClient(backend, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect to backend %s: %w", backend, err)
	}
	defer func() { _ = conn.Close() }()

	mux := runtime.NewServeMux()
	if err := fleetgw.RegisterFleetServiceHandler(ctx, mux, conn); err != nil {
		return fmt.Errorf("register fleet routes: %w", err)
	}
	if err := incidentgw.RegisterIncidentServiceHandler(ctx, mux, conn); err != nil {
		return fmt.Errorf("register incident routes: %w", err)
	}

	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the bare gateway: %w", err)
	}
	return nil
}
