package delivery_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/delivery"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		f.subscribe("ok", "one.example")
		f.subscribe("fails", "two.example")
		f.subscribe("refuses", "three.example")
		f.subscribe("gone", "four.example")
		f.notify(false)
		got := &recorder{fail: func(_ context.Context, m delivery.Message) error {
			return map[string]error{
				"fails": errors.New("HTTP 500"), "refuses": &delivery.Failure{Kind: delivery.Permanent}, "gone": &delivery.Failure{Kind: delivery.Gone},
			}[m.Subscriber.ID]
		}}
		registry := prometheus.NewPedanticRegistry()
		f.runFor(3*time.Second, delivery.Options{Senders: webhooks(got), Registerer: registry})
		families, err := registry.Gather()
		testkit.Must(t, err)
		want := map[string]float64{
			"opsbackend_dead_letters email": 0, "opsbackend_dead_letters webhook": 1,
			"opsbackend_deliveries_total webhook dead": 1, "opsbackend_deliveries_total webhook delivered": 1,
			"opsbackend_deliveries_total webhook failed": 1, "opsbackend_deliveries_total webhook removed": 1,
			"opsbackend_deliveries_waiting email": 0, "opsbackend_deliveries_waiting webhook": 1,
			"opsbackend_delivery_oldest_waiting_seconds": 3,
		}
		if diff := cmp.Diff(want, values(families)); diff != "" {
			t.Error(diff)
		}
		if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
	})
}

// values returns the values of metrics by name and labels: of histograms the counts.
func values(families []*dto.MetricFamily) map[string]float64 {
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

// The span of an attempt is in the trace of the request that caused the message.
func TestSpanJoinsTheTraceOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		f.subscribe("a", "one.example")
		f.notify(false)
		spans := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		got := &recorder{fail: func(context.Context, delivery.Message) error { return errors.New("HTTP 500") }}
		f.runFor(2*time.Second, delivery.Options{Senders: webhooks(got), TracerProvider: provider})
		ended := spans.Ended()
		if len(ended) != 1 {
			t.Fatalf("%d spans", len(ended))
		}
		span := ended[0]
		if parent := span.Parent(); span.Name() != "deliver notification" || !parent.IsRemote() ||
			parent.TraceID().String() != "0123456789abcdef0123456789abcdef" || parent.SpanID().String() != "0123456789abcdef" {
			t.Errorf("%s of %v", span.Name(), span.Parent())
		}
		if span.Status().Description != "HTTP 500" {
			t.Error(span.Status())
		}
		for _, a := range span.Attributes() {
			if strings.Contains(a.Value.String(), "hidden") {
				t.Error(a)
			}
		}
	})
}
