package tracing

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"opsgate/backendclient"
)

// attemptKey is the attribute that counts the attempts of a call, from 1.
const attemptKey = attribute.Key("opsgate.attempt")

// DialOptions have a span made of each attempt to call a service, and tell the service of the trace. They are none where nothing is
// recorded. What is known of a call is what is in its context; one that belongs to no trace is left alone.
//
// They go around all other interceptors: [grpc.WithUnaryInterceptor] is the first of them, where a call is what its caller makes,
// and the end of the chain is the last, where it is one attempt on its way to the wire.
func (p *Provider) DialOptions() []grpc.DialOption {
	if p == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithUnaryInterceptor(p.call), grpc.WithChainUnaryInterceptor(p.attempt)}
}

// attempts counts those of one call, which are made one after the other.
type attempts struct{ made int }

type attemptsKey struct{}

// call has the attempts of a recorded call counted. One that fails without any was refused on this side: by a breaker, or as too
// many were under way. That is a span of its own, which calls nobody.
func (p *Provider) call(
	ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return invoke(ctx, method, request, reply, cc, options...)
	}
	counted := new(attempts)
	err := invoke(context.WithValue(ctx, attemptsKey{}, counted), method, request, reply, cc, options...)
	if err != nil && counted.made == 0 && ctx.Err() == nil {
		_, span := p.tracer.Start(ctx, method[1:], trace.WithAttributes(describe(method, cc)...))
		failCall(span, err)
		if refused, ok := errors.AsType[*backendclient.Error](err); ok && refused.Reason != "" {
			span.SetAttributes(semconv.ErrorTypeKey.String(refused.Reason))
		}
		span.End()
	}
	return err
}

// attempt records one attempt, and tells the service where it belongs.
func (p *Provider) attempt(
	ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	switch parent := trace.SpanContextFromContext(ctx); {
	case !parent.IsValid():
		return invoke(ctx, method, request, reply, cc, options...)
	case !parent.IsSampled(): // somebody's trace that nobody records: it stays that everywhere
		return invoke(tell(ctx), method, request, reply, cc, options...)
	}
	ctx, span := p.tracer.Start(ctx, method[1:], trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(describe(method, cc)...))
	defer span.End()
	if counted, ok := ctx.Value(attemptsKey{}).(*attempts); ok {
		counted.made++
		span.SetAttributes(attemptKey.Int(counted.made))
	}
	var from peer.Peer
	err := invoke(tell(ctx), method, request, reply, cc, append(slices.Clip(options), grpc.Peer(&from))...)
	if from.Addr != nil {
		span.SetAttributes(peerAt(from.Addr.String())...)
	}
	if err != nil {
		failCall(span, err)
	} else {
		span.SetAttributes(semconv.RPCResponseStatusCode(code.Code_OK.String()))
	}
	return err
}

// describe returns what is known of a call before it is made. Method is as gRPC has it: "/ops.fleet.v1.FleetService/GetServer".
func describe(method string, cc *grpc.ClientConn) []attribute.KeyValue {
	return append([]attribute.KeyValue{semconv.RPCSystemNameGRPC, semconv.RPCMethod(method[1:])}, serverAt(targetAddress(cc.Target()))...)
}

// failCall says how a call failed.
func failCall(span trace.Span, err error) {
	name := codeName(status.Code(err))
	span.SetAttributes(semconv.RPCResponseStatusCode(name), semconv.ErrorTypeKey.String(name))
	span.SetStatus(otelcodes.Error, "")
}

// codeName returns a code as protocols write it: DEADLINE_EXCEEDED.
func codeName(c codes.Code) string { return code.Code(c).String() }

// tell adds to a call which span it comes from.
func tell(ctx context.Context) context.Context {
	headers := make(propagation.MapCarrier, 2)
	propagation.TraceContext{}.Inject(ctx, headers)
	var pairs []string
	for name, value := range headers {
		pairs = append(pairs, name, value)
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}
