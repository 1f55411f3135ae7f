package tracing

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/credentials"

	"opsgate/internal/outagelog"
)

// tracesPath is the path of traces below the endpoint of a collector.
const tracesPath = "/v1/traces"

// newExporter returns an OTLP exporter. The library reads settings that are not in the options from
// its environment variables.
func newExporter(ctx context.Context, o Options) (sdk.SpanExporter, error) {
	if o.Endpoint == "" {
		return exporterFromVariables(ctx)
	}
	endpoint, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("read the endpoint: %w", err)
	}
	switch scheme, _ := strings.CutSuffix(endpoint.Scheme, "s"); scheme {
	case "grpc":
		return otlptracegrpc.New(ctx, grpcOptions(o, endpoint)...)
	case "http":
		return otlptracehttp.New(ctx, httpOptions(o, endpoint)...)
	default:
		return nil, fmt.Errorf("the scheme %q is not supported", endpoint.Scheme)
	}
}

func exporterFromVariables(ctx context.Context) (sdk.SpanExporter, error) {
	const variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
	switch protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv(variable)); protocol {
	case "grpc":
		return otlptracegrpc.New(ctx)
	case "", "http/protobuf", "http/json":
		return otlptracehttp.New(ctx)
	default:
		return nil, fmt.Errorf("%s is grpc, http/protobuf or http/json, not %q", variable, protocol)
	}
}

func grpcOptions(o Options, endpoint *url.URL) []otlptracegrpc.Option {
	options := []otlptracegrpc.Option{otlptracegrpc.WithEndpointURL(strings.Replace(endpoint.String(), "grpc", "http", 1))}
	if o.TLS != nil {
		options = append(options, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(o.TLS)))
	}
	if len(o.Headers) > 0 {
		options = append(options, otlptracegrpc.WithHeaders(o.Headers))
	}
	return options
}

func httpOptions(o Options, endpoint *url.URL) []otlptracehttp.Option {
	if !strings.HasSuffix(endpoint.Path, tracesPath) {
		endpoint = endpoint.JoinPath(tracesPath)
	}
	options := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(endpoint.String())}
	if o.TLS != nil {
		options = append(options, otlptracehttp.WithTLSClientConfig(o.TLS))
	}
	if len(o.Headers) > 0 {
		options = append(options, otlptracehttp.WithHeaders(o.Headers))
	}
	return options
}

// A countedExporter counts spans by outcome, and logs outages of the collector.
type countedExporter struct {
	sdk.SpanExporter

	sent, failed prometheus.Counter
	log          outagelog.Log
}

func newCountedExporter(exporter sdk.SpanExporter, o Options) (*countedExporter, error) {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: o.Service + "_tracing_spans_total",
		Help: "Spans by outcome. failed: the collector did not accept their batch.",
	}, []string{"outcome"})
	return &countedExporter{
		SpanExporter: exporter, sent: spans.WithLabelValues("sent"), failed: spans.WithLabelValues("failed"),
		log: outagelog.Log{
			Logger: o.Logger, Failed: "traces are lost: the collector does not accept them",
			Recovered: "the collector accepts traces again",
		},
	}, o.Registerer.Register(spans)
}

// ExportSpans sends a batch. It returns no error, because the library would log each one.
func (e *countedExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.log.Fail(err)
		e.failed.Add(float64(len(spans)))
		return nil
	}
	e.log.Succeed()
	e.sent.Add(float64(len(spans)))
	return nil
}
