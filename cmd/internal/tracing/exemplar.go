package tracing

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// Exemplar returns what finds the labels that lead from a measurement to the trace that it was made in: none where that is not
// recorded. It is nil of a nil Provider.
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
