package bare

import (
	"context"
	"fmt"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"

	fleetgw "opsgate/tools/edgebench/bare/ops/fleet/v1"
	incidentgw "opsgate/tools/edgebench/bare/ops/incident/v1"
)

// New returns a handler that translates HTTP requests into calls of the backend.
func New(ctx context.Context, backend *grpc.ClientConn) (http.Handler, error) {
	mux := runtime.NewServeMux()
	if err := fleetgw.RegisterFleetServiceHandler(ctx, mux, backend); err != nil {
		return nil, fmt.Errorf("register fleet routes: %w", err)
	}
	if err := incidentgw.RegisterIncidentServiceHandler(ctx, mux, backend); err != nil {
		return nil, fmt.Errorf("register incident routes: %w", err)
	}
	return mux, nil
}
