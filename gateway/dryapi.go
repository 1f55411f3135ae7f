package gateway

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/grpc"

	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// dryAPI returns handlers for dry runs: they decode requests, and return a notGivenError with the name of the method instead of calling it.
func dryAPI() *api {
	var conn stubConn
	return &api{
		fleet:      fleetv1.NewFleetServiceClient(conn),
		monitoring: monitoringv1.NewMonitoringServiceClient(conn),
		incident:   incidentv1.NewIncidentServiceClient(conn),
		audit:      auditv1.NewAuditServiceClient(conn),
	}
}

// A stubConn fails every call.
type stubConn struct{}

// Invoke implements [grpc.ClientConnInterface].
func (stubConn) Invoke(_ context.Context, method string, _, _ any, _ ...grpc.CallOption) error {
	return &notGivenError{": " + strings.TrimPrefix(method, "/")}
}

// NewStream implements [grpc.ClientConnInterface].
func (stubConn) NewStream(_ context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, &notGivenError{": " + strings.TrimPrefix(method, "/")}
}

// errBodyNotGiven is returned by reads of the body in a dry run.
var errBodyNotGiven = &notGivenError{}

type bodyNotGiven struct{}

// Read implements [io.Reader].
func (bodyNotGiven) Read([]byte) (int, error) { return 0, errBodyNotGiven }

// A discardWriter discards the response. Gin sets the Allow header in it.
type discardWriter struct{ header http.Header }

// Header implements [http.ResponseWriter].
func (w discardWriter) Header() http.Header { return w.header }

// Write implements [http.ResponseWriter].
func (discardWriter) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements [http.ResponseWriter].
func (discardWriter) WriteHeader(int) {}
