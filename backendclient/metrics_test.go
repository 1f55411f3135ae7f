package backendclient_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/backendclient"
	"opsgate/internal/testkit"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

func TestCallsAreMeasuredByServiceMethodAndCode(t *testing.T) {
	registry := prometheus.NewRegistry()
	var answer error
	b := &backend{getServer: func(context.Context) (*fleetv1.GetServerResponse, error) {
		return &fleetv1.GetServerResponse{}, answer
	}}
	clients := over(t, b, func(o *backendclient.Options) { o.Registerer = registry })
	for _, answer = range []error{nil, nil, status.Error(codes.NotFound, "none")} {
		_ = getServer(t, clients)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = clients.Fleet.ListServers(gone, &fleetv1.ListServersRequest{})

	got := series(t, registry, "opsgate_upstream_request_duration_seconds")
	want := map[string]float64{ // and no series of other calls
		"code=OK method=GetServer service=fleet":         2,
		"code=NotFound method=GetServer service=fleet":   1,
		"code=Canceled method=ListServers service=fleet": 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("series %v, want %v", got, want)
	}
}

// series returns the values of a metric by labels; for a histogram, the number of observations.
func series(t testing.TB, registry *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	testkit.Must(t, err)
	got := make(map[string]float64)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			got[strings.Join(labels, " ")] = float64(m.GetHistogram().GetSampleCount()) + m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return got
}

// mustCount compares the fleet service's value of a metric with want.
func mustCount(t testing.TB, registry *prometheus.Registry, name string, want float64) {
	t.Helper()
	if got := series(t, registry, name)["service=fleet"]; got != want {
		t.Errorf("%s is %v, want %v", name, got, want)
	}
}

// BenchmarkInterceptors measures what this package adds to a call: "bare" is a plain connection.
// Neither sends anything.
func BenchmarkInterceptors(b *testing.B) {
	wire := grpc.WithChainUnaryInterceptor(func(
		context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption,
	) error {
		return nil
	})
	run := func(client fleetv1.FleetServiceClient) func(*testing.B) {
		return func(b *testing.B) {
			ctx, cancel := context.WithTimeout(b.Context(), 1<<40)
			defer cancel()
			request := &fleetv1.GetServerRequest{TeamId: "0190a8c0-0000-7000-8000-000000000001"}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.GetServer(ctx, request); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	connection, err := grpc.NewClient("passthrough:///x", plainCredentials(), grpc.WithNoProxy(), wire)
	testkit.Must(b, err)
	b.Cleanup(func() { _ = connection.Close() })
	b.Run("bare", run(fleetv1.NewFleetServiceClient(connection)))
	clients := dial(b, at("passthrough:///x"), func(o *backendclient.Options) { o.DialOptions = []grpc.DialOption{wire} })
	b.Run("ours", run(clients.Fleet))
}
