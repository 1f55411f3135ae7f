package tracing

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// Exemplar returns a function that returns the exemplar labels of the current span, or nil if the span is not recorded. Exemplar of a nil
// Provider is nil.
func (p *Provider) Exemplar() func(context.Context) prometheus.Labels {
	if p == nil {
		return nil
	}
	return exemplar
}

func exemplar(ctx context.Context) prometheus.Labels {
	at := trace.SpanContextFromContext(ctx)
	if !at.IsSampled() {
		return nil
	}
	return prometheus.Labels{"trace_id": at.TraceID().String(), "span_id": at.SpanID().String()}
}
