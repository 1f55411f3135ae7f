package tracing

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// Exemplar returns labels that lead from a measurement to the trace that it was made in, or nil where that is not recorded.
func Exemplar(ctx context.Context) prometheus.Labels {
	at := trace.SpanContextFromContext(ctx)
	if !at.IsSampled() {
		return nil
	}
	return prometheus.Labels{"trace_id": at.TraceID().String(), "span_id": at.SpanID().String()}
}
