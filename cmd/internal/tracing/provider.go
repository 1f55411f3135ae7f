package tracing

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

const (
	// flushGrace is how long the last spans may take to be sent.
	flushGrace = 3 * time.Second
	// maxWaiting bounds the spans that are not sent yet, at some two kilobytes each.
	maxWaiting = 2048
)

// Options are what a Provider is made of. Logger and Registerer are required.
type Options struct {
	// Endpoint is the collector: http://host:4318 or grpc://host:4317, with an s for TLS. Without it, the variables
	// OTEL_EXPORTER_OTLP_* say which it is, and without those nothing is recorded.
	Endpoint string
	// Headers go with what is sent to the Endpoint.
	Headers map[string]string
	// TLS is for an Endpoint with it; nil for the roots of the system.
	TLS *tls.Config
	// Version is that of the gateway.
	Version    string
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// A Provider records spans and sends them to a collector. A nil Provider records nothing.
type Provider struct {
	sdk    *sdk.TracerProvider
	tracer trace.Tracer
	outbox *outbox
	logger *slog.Logger
}

// New makes a Provider. It is nil where nobody asks for traces, or OTEL_SDK_DISABLED refuses them. It calls nobody: a collector
// that is away is found out when there is something to send. It must be closed.
func New(o Options) (*Provider, error) {
	ctx := context.Background() // nothing here waits
	if !wanted(o) {
		return nil, nil
	}
	exporter, err := newExporter(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	out, err := newOutbox(exporter, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tracing: %w", err), exporter.Shutdown(ctx))
	}
	// What the library has to say goes to standard error otherwise. It has one handler for the whole process.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Logger.Debug("opentelemetry", slog.Any("error", err)) }))
	p := &Provider{outbox: out, logger: o.Logger}
	p.sdk = sdk.NewTracerProvider(
		sdk.WithSampler(sdk.AlwaysSample()), // a Tracer has decided before
		sdk.WithResource(newResource(ctx, o)),
		sdk.WithSpanProcessor(out),
	)
	p.tracer = p.sdk.Tracer("opsgate", trace.WithInstrumentationVersion(o.Version), trace.WithSchemaURL(semconv.SchemaURL))
	return p, nil
}

// wanted tells whether traces are to be sent anywhere. The variables are the process's own, as the library reads them there too.
func wanted(o Options) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return o.Endpoint != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// newResource says who records: what OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say, and the rest by itself.
func newResource(ctx context.Context, o Options) *resource.Resource {
	r, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("opsgate"), semconv.ServiceVersion(o.Version)),
		resource.WithHost(),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(),
	)
	if err != nil { // it has the rest nevertheless
		o.Logger.Warn("what traces say of this process is incomplete", slog.Any("error", err))
	}
	return r
}

// With returns a Tracer under the settings; nil of a nil Provider.
func (p *Provider) With(s Settings) *Tracer {
	if p == nil {
		return nil
	}
	return &Tracer{Provider: p, settings: s}
}

// Close sends what waits to be sent, for three seconds at most. What cannot be sent by then is lost, which is logged and is no
// error: nobody's request depends on it.
func (p *Provider) Close() {
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushGrace)
	defer cancel()
	err := p.sdk.Shutdown(ctx)
	err = errors.Join(err, p.outbox.exporter.Shutdown(ctx)) // ends what still goes on when the time is over
	if lost := p.outbox.waiting.Load(); lost > 0 {
		p.logger.Warn("the last traces are lost: the collector does not take them", slog.Int64("spans", lost), slog.Any("error", err))
	}
}
