package tracing

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// attemptKey is the attribute with the number of an attempt, from 1.
const attemptKey = attribute.Key("opsgate.attempt")

// DialOptions returns interceptors that record a span for each attempt to call a service and send
// the trace context to it. A nil Provider has none. A call whose context has no trace is not
// changed.
//
// The first interceptor runs before all others ([grpc.WithUnaryInterceptor]) and sees each call;
// the second runs after all others and sees each attempt.
func (p *Provider) DialOptions() []grpc.DialOption {
	if p == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithUnaryInterceptor(p.call), grpc.WithChainUnaryInterceptor(p.attempt)}
}

// attempts is the number of attempts of a call, which are sequential.
type attempts struct{ made int }

type attemptsKey struct{}

// call counts the attempts of a recorded call. A call that fails without an attempt was refused by
// a breaker or by the limit on calls in flight; it gets an internal span.
func (p *Provider) call(
	ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return invoke(ctx, method, request, reply, cc, options...)
	}
	counted := new(attempts)
	err := invoke(context.WithValue(ctx, attemptsKey{}, counted), method, request, reply, cc, options...)
	if err != nil && counted.made == 0 && ctx.Err() == nil {
		_, span := p.tracer.Start(ctx, method[1:], trace.WithAttributes(describe(method, cc)...))
		failCall(span, err)
		if refused, ok := errors.AsType[failure](err); ok && refused.FailureReason() != "" {
			span.SetAttributes(semconv.ErrorTypeKey.String(refused.FailureReason()))
		}
		span.End()
	}
	return err
}

// A failure is the error of a call that was not made, with the reason.
type failure interface {
	error
	FailureReason() string
}

// attempt records one attempt and sends the trace context.
func (p *Provider) attempt(
	ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	switch parent := trace.SpanContextFromContext(ctx); {
	case !parent.IsValid():
		return invoke(ctx, method, request, reply, cc, options...)
	case !parent.IsSampled(): // a caller's trace that is not recorded: services must not record it either
		return invoke(withTraceContext(ctx), method, request, reply, cc, options...)
	}
	ctx, span := p.tracer.Start(ctx, method[1:], trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(describe(method, cc)...))
	defer span.End()
	if counted, ok := ctx.Value(attemptsKey{}).(*attempts); ok {
		counted.made++
		span.SetAttributes(attemptKey.Int(counted.made))
	}
	var from peer.Peer
	err := invoke(withTraceContext(ctx), method, request, reply, cc, append(slices.Clip(options), grpc.Peer(&from))...)
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

// describe returns the attributes of a call. The method is as gRPC writes it:
// "/ops.fleet.v1.FleetService/GetServer".
func describe(method string, cc *grpc.ClientConn) []attribute.KeyValue {
	return append([]attribute.KeyValue{semconv.RPCSystemNameGRPC, semconv.RPCMethod(method[1:])},
		serverAt(targetAddress(cc.Target()))...)
}

// failCall records the failure of a call.
func failCall(span trace.Span, err error) {
	name := code.Code(status.Code(err)).String() // as in the specification: DEADLINE_EXCEEDED
	span.SetAttributes(semconv.RPCResponseStatusCode(name), semconv.ErrorTypeKey.String(name))
	span.SetStatus(otelcodes.Error, "")
}

// withTraceContext adds the W3C headers of the current span to the metadata of a call.
func withTraceContext(ctx context.Context) context.Context {
	headers := make(propagation.MapCarrier, 2)
	propagation.TraceContext{}.Inject(ctx, headers)
	var pairs []string
	for name, value := range headers {
		pairs = append(pairs, name, value)
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// serverAt returns the server attributes of an address host:port.
func serverAt(address string) []attribute.KeyValue {
	return attributesOf(address, semconv.ServerAddress, semconv.ServerPort)
}

// peerAt returns the network peer attributes of the process that responded.
func peerAt(address string) []attribute.KeyValue {
	return attributesOf(address, semconv.NetworkPeerAddress, semconv.NetworkPeerPort)
}

// attributesOf returns the attributes of an address. One without a port, for example the path of a
// socket, is the host.
func attributesOf(
	address string, ofHost func(string) attribute.KeyValue, ofPort func(int) attribute.KeyValue,
) []attribute.KeyValue {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return []attribute.KeyValue{ofHost(address)}
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return []attribute.KeyValue{ofHost(host)}
	}
	return []attribute.KeyValue{ofHost(host), ofPort(port)}
}

// targetAddress returns the address in a gRPC target like dns:///fleet.internal:9000 or
// unix:///run/fleet.sock.
func targetAddress(target string) string {
	scheme, rest, found := strings.Cut(target, "://")
	switch {
	case !found:
		return strings.TrimPrefix(target, "dns:")
	case scheme == "unix":
		return rest
	}
	_, address, _ := strings.Cut(rest, "/") // after the authority
	return address
}
