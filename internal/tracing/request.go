package tracing

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// A Tracer decides which requests are recorded.
type Tracer struct {
	*Provider

	settings Settings
}

// A Request is the span of a recorded request.
type Request struct {
	span   trace.Span
	tracer trace.Tracer
}

// Trace starts the span of a request. The route is the template of its path, or "" for an unknown
// path. Calls of the request must use the returned context. The Request is nil if the request is
// not recorded.
func (t *Tracer) Trace(ctx context.Context, req *http.Request, route string) (context.Context, *Request) {
	if len(req.Header["Traceparent"]) == 0 {
		if !t.settings.draw() {
			return ctx, nil
		}
		return t.begin(ctx, req, route)
	}
	if t.settings.trusts(req.RemoteAddr) {
		if parent := t.settings.withoutTokens(parentOf(req)); parent.IsValid() {
			ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
			if !parent.IsSampled() {
				return ctx, nil // recorded neither here nor by the services
			}
			return t.begin(ctx, req, route)
		}
	}
	if !t.settings.draw() {
		return ctx, nil
	}
	return t.begin(ctx, req, route, linkTo(parentOf(req))...)
}

// parentOf returns the span context in the headers of the request, which is invalid without one.
func parentOf(req *http.Request) trace.SpanContext {
	if len(req.Header["Traceparent"]) > 1 {
		return trace.SpanContext{} // ambiguous
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(),
		propagation.HeaderCarrier(req.Header)))
}

// linkTo returns a link to the trace of a caller that is not trusted, without its trace state.
func linkTo(parent trace.SpanContext) []trace.SpanStartOption {
	if !parent.IsValid() {
		return nil
	}
	return []trace.SpanStartOption{trace.WithLinks(trace.Link{SpanContext: parent.WithTraceState(trace.TraceState{})})}
}

func (t *Tracer) begin(
	ctx context.Context, req *http.Request, route string, more ...trace.SpanStartOption,
) (context.Context, *Request) {
	method, name := methodOf(req)
	attributes := append(make([]attribute.KeyValue, 0, 8),
		semconv.HTTPRequestMethodKey.String(method),
		semconv.URLScheme(schemeOf(req)),
	)
	if route != "" {
		name += " " + route
		attributes = append(attributes, semconv.HTTPRoute(route))
	}
	if version, ok := strings.CutPrefix(req.Proto, "HTTP/"); ok {
		attributes = append(attributes, semconv.NetworkProtocolVersion(strings.TrimSuffix(version, ".0")))
	}
	// Not the Host header, which the client controls.
	if local, ok := ctx.Value(http.LocalAddrContextKey).(net.Addr); ok {
		attributes = append(attributes, serverAt(local.String())...)
	}
	if peer, err := netip.ParseAddrPort(req.RemoteAddr); err == nil {
		attributes = append(attributes, semconv.NetworkPeerAddress(peer.Addr().Unmap().String()))
	}
	more = append(more, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
	ctx, span := t.tracer.Start(ctx, name, more...)
	return ctx, &Request{span: span, tracer: t.tracer}
}

// schemeOf returns the scheme of this connection, which may differ from that before a proxy.
func schemeOf(req *http.Request) string {
	if req.TLS != nil {
		return "https"
	}
	return "http"
}

// methodOf returns the method as an attribute and in the name of a span. Unknown methods are
// replaced, because clients choose them.
func methodOf(req *http.Request) (method, name string) {
	switch m := req.Method; m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions,
		http.MethodConnect, http.MethodTrace:
		return m, m
	}
	return "_OTHER", "HTTP"
}

// IDs returns the trace's id and the span's, in hex.
func (r *Request) IDs() (traceID, spanID string) {
	at := r.span.SpanContext()
	return at.TraceID().String(), at.SpanID().String()
}

// StartSpan starts a child span. The caller must call the returned function with the kind of
// failure, or "" if it did not fail because of the gateway or a service.
func (r *Request) StartSpan(ctx context.Context, name string) (context.Context, func(failure string)) {
	ctx, span := r.tracer.Start(ctx, name)
	return ctx, func(failure string) {
		fail(span, failure)
		span.End()
	}
}

// End ends the span. The status is 0 if no response was sent. The failure is the kind of failure,
// or "" if the request did not fail because of the gateway or a service.
func (r *Request) End(status int, failure string, attributes ...slog.Attr) {
	for _, a := range attributes {
		r.span.SetAttributes(attributeOf(a))
	}
	if status != 0 {
		r.span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	}
	fail(r.span, failure)
	r.span.End()
}

// fail marks a span as failed. The text of the error is only in the log, which has the id of the
// trace: it may contain input.
func fail(span trace.Span, failure string) {
	if failure != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(failure))
		span.SetStatus(codes.Error, "")
	}
}

func attributeOf(a slog.Attr) attribute.KeyValue {
	switch v := a.Value; v.Kind() {
	case slog.KindBool:
		return attribute.Bool(a.Key, v.Bool())
	case slog.KindInt64:
		return attribute.Int64(a.Key, v.Int64())
	case slog.KindFloat64:
		return attribute.Float64(a.Key, v.Float64())
	default:
		return attribute.String(a.Key, v.String())
	}
}
