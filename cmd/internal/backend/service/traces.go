package service

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// traceparentHeader is the W3C header, and the name of its metadata.
const traceparentHeader = "traceparent"

// traced continues the caller's trace with a span of the call. A call without a valid traceparent
// has no span: whether it is recorded is the decision of the caller, who knows the request that it
// belongs to.
func (b *Backend) traced(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	values := metadata.ValueFromIncomingContext(ctx, traceparentHeader)
	if len(values) != 1 {
		return handle(ctx, request)
	}
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparentHeader: values[0]})
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return handle(ctx, request)
	}
	ctx, span := b.tracer.Start(ctx, info.FullMethod[1:], trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("rpc.system.name", "grpc"),
			attribute.String("rpc.method", info.FullMethod[1:])))
	defer span.End()
	response, err := handle(ctx, request)
	name := code.Code(status.Code(err)).String()
	span.SetAttributes(attribute.String("rpc.response.status_code", name))
	switch status.Code(err) { // the codes that are errors of a server in the conventions of OpenTelemetry
	case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		span.SetAttributes(attribute.String("error.type", name))
		span.SetStatus(otelcodes.Error, "")
	}
	return response, err
}

// traceparentOf returns the current span of a context in the form of the W3C header, or "" for
// none.
func traceparentOf(ctx context.Context) string {
	headers := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, headers)
	return headers[traceparentHeader]
}
