package tracing

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// An outbox is a bounded queue of spans that counts the outcome of each. It wraps the batch processor of the library, which drops spans
// without a count.
type outbox struct {
	sdk.SpanProcessor

	exporter sdk.SpanExporter
	logger   *slog.Logger
	waiting  atomic.Int64
	dropped  atomic.Int64 // spans since the queue was full

	sent, failed, full prometheus.Counter

	// Used only by the goroutine of the processor, which sends one batch at a time.
	failing bool
	lost    int // spans since failing is true
}

func newOutbox(exporter sdk.SpanExporter, o Options) (*outbox, error) {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: o.Service + "_tracing_spans_total",
		Help: "Spans by outcome: sent; failed, because the collector did not accept their batch; or queue_full.",
	}, []string{"outcome"})
	if err := o.Registerer.Register(spans); err != nil {
		return nil, err
	}
	out := &outbox{
		exporter: exporter, logger: o.Logger,
		sent: spans.WithLabelValues("sent"), failed: spans.WithLabelValues("failed"), full: spans.WithLabelValues("queue_full"),
	}
	out.SpanProcessor = sdk.NewBatchSpanProcessor(sender{out}, sdk.WithMaxQueueSize(maxWaiting))
	return out, nil
}

// OnEnd queues a span, or drops it if the queue is full. It does not block.
func (o *outbox) OnEnd(span sdk.ReadOnlySpan) {
	if o.waiting.Add(1) > maxWaiting {
		o.waiting.Add(-1)
		o.full.Inc()
		if o.dropped.Add(1) == 1 {
			o.logger.Warn("traces are lost: more spans end than the collector accepts, and the queue is full", slog.Int("queue", maxWaiting))
		}
		return
	}
	o.SpanProcessor.OnEnd(span)
}

// A sender sends batches for an outbox.
type sender struct{ *outbox }

// ExportSpans sends a batch. It logs the first failure and the recovery, and returns no error because the library would log each one.
func (s sender) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := s.exporter.ExportSpans(ctx, spans)
	if waiting := s.waiting.Add(-int64(len(spans))); waiting <= maxWaiting/2 { // not sooner: it may be full again at once
		if dropped := s.dropped.Swap(0); dropped > 0 {
			s.logger.Info("the queue of spans is no longer full", slog.Int64("spans_lost", dropped))
		}
	}
	if err == nil {
		s.sent.Add(float64(len(spans)))
		if s.failing {
			s.logger.Info("the collector accepts traces again", slog.Int("spans_lost", s.lost))
		}
		s.failing, s.lost = false, 0
		return nil
	}
	s.failed.Add(float64(len(spans)))
	s.lost += len(spans)
	if !s.failing {
		s.failing = true
		s.logger.Warn("traces are lost: the collector does not accept them", slog.Any("error", err))
	}
	return nil
}

// Shutdown implements [sdk.SpanExporter].
func (s sender) Shutdown(ctx context.Context) error { return s.exporter.Shutdown(ctx) }
