package backendclient

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/backendclient/breaker"
	"opsgate/internal/timings"
)

// numCodes is the number of gRPC codes, OK included.
const numCodes = int(codes.Unauthenticated) + 1

// A method holds the static data, the breaker and the metric of a method.
type method struct {
	service, name string
	readOnly      bool
	namesResource bool             // see Error
	breaker       *breaker.Breaker // nil for a stream

	exemplar  func(context.Context) prometheus.Labels // see Options
	durations *prometheus.HistogramVec
	// observers are the children of durations by code: a lookup by labels takes longer than
	// everything else that this package does for a call. They are made on first use, as most codes
	// never occur.
	observers [numCodes]atomic.Pointer[prometheus.Observer]
}

// observe records the duration of a call.
func (m *method) observe(ctx context.Context, code codes.Code, took time.Duration) {
	cached := &m.observers[code]
	observer := cached.Load()
	if observer == nil {
		child := m.durations.WithLabelValues(m.service, m.name, code.String())
		observer = &child
		cached.Store(observer)
	}
	var labels prometheus.Labels
	if m.exemplar != nil {
		labels = m.exemplar(ctx)
	}
	timings.Observe(*observer, took, labels)
}

// forbidden is the beginning of gRPC's message for an answer with HTTP 403 and without a status of
// gRPC.
const forbidden = "unexpected HTTP status code received from server: 403"

// refusesGateway reports whether a call ended with a refusal of the gateway itself and not of a
// team: of its credentials, or by a policy, for example of a service mesh. A policy answers
// PermissionDenied, as a service may only for a resource.
func refusesGateway(err error, namesResource bool) bool {
	switch s := status.Convert(err); s.Code() {
	case codes.Unauthenticated:
		return true
	case codes.PermissionDenied:
		return !namesResource || strings.HasPrefix(s.Message(), forbidden)
	default:
		return false
	}
}

// methodName returns the last part of a full name such as "/ops.fleet.v1.FleetService/GetServer".
func methodName(full string) string { return full[strings.LastIndexByte(full, '/')+1:] }

// newMethods returns the methods of a service by name. The map is read-only.
func newMethods(
	s service, durations *prometheus.HistogramVec, exemplar func(context.Context) prometheus.Labels,
) map[string]*method {
	methods := make(map[string]*method)
	add := func(name string) {
		methods[name] = &method{
			service: s.name, name: name, readOnly: isReadOnly(name), durations: durations, exemplar: exemplar,
		}
	}
	for _, m := range s.description.Methods {
		add(m.MethodName)
	}
	for _, m := range s.description.Streams {
		add(m.StreamName)
	}
	return methods
}
