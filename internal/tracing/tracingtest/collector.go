package tracingtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"opsgate/internal/testkit"
	"opsgate/internal/testkit/grpctest"
)

// A Collector takes spans. It is safe for concurrent use.
type Collector struct {
	GRPC, HTTP string // endpoints, as the configuration has them

	mu       sync.Mutex
	requests []*collectorpb.ExportTraceServiceRequest
	headers  []map[string][]string
}

// Start starts a collector, which ends with the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	c := new(Collector)
	c.GRPC = "grpc://" + c.serveGRPC(t)
	c.HTTP = "http://" + c.serveHTTP(t)
	return c
}

func (c *Collector) serveGRPC(t testing.TB) string {
	t.Helper()
	listener := listen(t)
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, grpcService{collector: c})
	grpctest.Serve(t, server, listener)
	return listener.Addr().String()
}

func (c *Collector) serveHTTP(t testing.TB) string {
	t.Helper()
	listener := listen(t)
	server := &http.Server{Handler: http.HandlerFunc(c.post)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served // it always fails in the end, with that it was closed
	})
	return listener.Addr().String()
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	return listener
}

func (c *Collector) take(request *collectorpb.ExportTraceServiceRequest, headers map[string][]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, request)
	c.headers = append(c.headers, headers)
}

func (c *Collector) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	request := new(collectorpb.ExportTraceServiceRequest)
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, request) != nil {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}
	c.take(request, r.Header)
}

// A grpcService is the collector as gRPC sees it.
type grpcService struct {
	collectorpb.UnimplementedTraceServiceServer

	collector *Collector
}

// Export implements [collectorpb.TraceServiceServer].
func (s grpcService) Export(
	ctx context.Context, request *collectorpb.ExportTraceServiceRequest,
) (*collectorpb.ExportTraceServiceResponse, error) {
	headers, _ := metadata.FromIncomingContext(ctx)
	s.collector.take(request, headers)
	return new(collectorpb.ExportTraceServiceResponse), nil
}

// A Span is one that was taken, with what sent it.
type Span struct {
	*tracepb.Span

	Resource []*commonpb.KeyValue
}

// Spans returns all that were taken.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var spans []Span
	for _, request := range c.requests {
		for _, resource := range request.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					spans = append(spans, Span{span, resource.GetResource().GetAttributes()})
				}
			}
		}
	}
	return spans
}

// Headers returns those that came with each request.
func (c *Collector) Headers() []map[string][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.headers
}

// Contains reports whether the bytes are anywhere in what was taken.
func (c *Collector) Contains(t testing.TB, text string) bool {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, request := range c.requests {
		sent, err := proto.Marshal(request)
		testkit.Must(t, err)
		if bytes.Contains(sent, []byte(text)) || bytes.Contains(fmt.Append(nil, c.headers[i]), []byte(text)) {
			return true
		}
	}
	return false
}

// Attributes returns the span's attributes as text.
func (s Span) Attributes() map[string]string { return texts(s.GetAttributes()) }

// From returns what is said of who sent the span.
func (s Span) From() map[string]string { return texts(s.Resource) }

func texts(attributes []*commonpb.KeyValue) map[string]string {
	all := make(map[string]string, len(attributes))
	for _, a := range attributes {
		switch v := a.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			all[a.GetKey()] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			all[a.GetKey()] = fmt.Sprint(v.IntValue)
		case *commonpb.AnyValue_BoolValue:
			all[a.GetKey()] = fmt.Sprint(v.BoolValue)
		default:
			all[a.GetKey()] = a.GetValue().String()
		}
	}
	return all
}
