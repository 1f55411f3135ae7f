package backendclient

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"opsgate/backendclient/breaker"
	"opsgate/internal/timings"
	"opsgate/proto/contract"
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

// methodName returns the last part of a full name such as "/ops.fleet.v1.FleetService/GetServer".
func methodName(full string) string { return full[strings.LastIndexByte(full, '/')+1:] }

func (u *upstream) addMethod(
	m contract.Method, durations *prometheus.HistogramVec, exemplar func(context.Context) prometheus.Labels,
) {
	name := methodName(m.Path())
	added := &method{
		service: u.service, name: name, readOnly: isReadOnly(name), namesResource: m.Resource() != "",
		durations: durations, exemplar: exemplar,
	}
	if !m.IsStream() {
		added.breaker = u.breakers.Add(name)
	}
	if m.IsProbe() {
		u.probeMethod = m.Path()
	}
	u.methods[name] = added
}
