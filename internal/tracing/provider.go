package tracing

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// flushGrace is the time for the last spans to be sent.
const flushGrace = 3 * time.Second

// Options of a Provider. Logger and Registerer are required.
type Options struct {
	// Endpoint is the collector: http://host:4318 or grpc://host:4317, with an s for TLS. Without
	// it, the variables OTEL_EXPORTER_OTLP_* name it; without those, nothing is recorded.
	Endpoint string
	// Headers are sent to the Endpoint.
	Headers map[string]string
	// TLS is for an Endpoint with TLS; nil for the roots of the system.
	TLS *tls.Config
	// Service is the name of the sender, unless OTEL_SERVICE_NAME is set, and the prefix of the
	// metric; "" means opsgate.
	Service string
	// Version of the program.
	Version    string
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// A Provider records spans and sends them to a collector. A nil Provider records nothing.
type Provider struct {
	sdk      *sdk.TracerProvider
	tracer   trace.Tracer
	exporter sdk.SpanExporter
	logger   *slog.Logger
}

// New returns a Provider, or nil if no collector is configured or OTEL_SDK_DISABLED is true. It
// does not connect: the first batch shows whether the collector can be reached. The Provider must
// be closed.
func New(o Options) (*Provider, error) {
	ctx := context.Background() // nothing here blocks
	o.Service = cmp.Or(o.Service, "opsgate")
	if !enabled(o) {
		return nil, nil
	}
	setLibraryLog(o.Logger)
	exporter, err := newExporter(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	counted, err := newCountedExporter(exporter, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tracing: %w", err), exporter.Shutdown(ctx))
	}
	p := &Provider{exporter: exporter, logger: o.Logger}
	p.sdk = sdk.NewTracerProvider(
		// A Tracer, or the caller of a service, has already decided.
		sdk.WithSampler(sdk.ParentBased(sdk.AlwaysSample())),
		sdk.WithResource(newResource(ctx, o)),
		sdk.WithBatcher(counted), // it drops the spans that find its queue of 2048 full
	)
	p.tracer = p.sdk.Tracer(o.Service, trace.WithInstrumentationVersion(o.Version), trace.WithSchemaURL(semconv.SchemaURL))
	return p, nil
}

// enabled reports whether traces are sent. It reads the variables of the process because the
// library does so too.
func enabled(o Options) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return o.Endpoint != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" ||
		os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// newResource returns the resource of the program. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
// override its attributes.
func newResource(ctx context.Context, o Options) *resource.Resource {
	r, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName(o.Service), semconv.ServiceVersion(o.Version)),
		resource.WithHost(),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(),
	)
	if err != nil { // r has the attributes that were detected
		o.Logger.Warn("resource attributes of traces are incomplete", slog.Any("error", err))
	}
	return r
}

// TracerProvider returns the provider for code that creates spans itself, or nil for a nil
// Provider.
func (p *Provider) TracerProvider() trace.TracerProvider {
	if p == nil {
		return nil
	}
	return p.sdk
}

// Tracer returns a Tracer with the settings, or nil for a nil Provider.
func (p *Provider) Tracer(s Settings) *Tracer {
	if p == nil {
		return nil
	}
	return &Tracer{Provider: p, settings: s}
}

// Close sends the queued spans for up to three seconds. It logs a failure; that is no error because
// no request depends on traces.
func (p *Provider) Close() {
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushGrace)
	defer cancel()
	err := p.sdk.Shutdown(ctx)
	// the second cancels an export that is still in progress
	if err = errors.Join(err, p.exporter.Shutdown(ctx)); err != nil {
		p.logger.Warn("the last traces are lost: the collector does not accept them", slog.Any("error", err))
	}
}

// Exemplar returns a function that returns the exemplar labels of the current span, or nil if the
// span is not recorded. Exemplar of a nil Provider is nil.
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
