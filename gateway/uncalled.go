package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"google.golang.org/grpc"

	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// uncalled returns handlers whose services are never called. They decode a request as the others do, and fail with an
// uncalledError where those would call.
func uncalled() *api {
	var nobody uncalledConn
	return &api{
		fleet:      fleetv1.NewFleetServiceClient(nobody),
		monitoring: monitoringv1.NewMonitoringServiceClient(nobody),
		incident:   incidentv1.NewIncidentServiceClient(nobody),
		audit:      auditv1.NewAuditServiceClient(nobody),
	}
}

// An uncalledConn leads nowhere.
type uncalledConn struct{}

// Invoke implements [grpc.ClientConnInterface].
func (uncalledConn) Invoke(_ context.Context, method string, _, _ any, _ ...grpc.CallOption) error {
	return &uncalledError{method: strings.TrimPrefix(method, "/")}
}

// NewStream implements [grpc.ClientConnInterface].
func (uncalledConn) NewStream(_ context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, &uncalledError{method: strings.TrimPrefix(method, "/")}
}

// An uncalledError says which call was not made.
type uncalledError struct{ method string }

// Error names the call.
func (e *uncalledError) Error() string { return e.method + " is not called" }

// errBodyUnknown is what reading the body of a question ends with.
var errBodyUnknown = errors.New("the body is not known")

// An unknownBody cannot be read.
type unknownBody struct{}

// Read implements [io.Reader].
func (unknownBody) Read([]byte) (int, error) { return 0, errBodyUnknown }

// Nowhere is a response that nobody reads.
type nowhere struct{ header http.Header }

// Header implements [http.ResponseWriter].
func (w *nowhere) Header() http.Header { return w.header }

// Write implements [http.ResponseWriter].
func (w *nowhere) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements [http.ResponseWriter].
func (w *nowhere) WriteHeader(int) {}
