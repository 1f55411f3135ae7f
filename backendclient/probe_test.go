package backendclient_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"opsgate/backendclient"
	"opsgate/backendclient/breaker"
	"opsgate/backendclient/endpoints"
	"opsgate/internal/testkit"
	"opsgate/internal/testkit/grpctest"
)

// answering serves all methods of all services, except health checks, with a status, at a new
// address.
func answering(t *testing.T, answer func(method string, request []byte) error) (address string) {
	t.Helper()
	listener := listen(t, "127.0.0.1:0")
	serveAnswers(t, listener, answer)
	return listener.Addr().String()
}

func serveAnswers(
	t *testing.T, listener net.Listener, answer func(method string, request []byte) error, options ...grpc.ServerOption,
) (stop func()) {
	t.Helper()
	server := grpc.NewServer(append(options, grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		if method == healthv1.Health_Watch_FullMethodName {
			return status.Error(codes.Unimplemented, "no health checks")
		}
		request := new(emptypb.Empty)
		if err := stream.RecvMsg(request); err != nil {
			return err
		}
		return answer(method, request.ProtoReflect().GetUnknown())
	}))...)
	grpctest.Serve(t, server, listener)
	return server.Stop
}

func unimplemented(string, []byte) error { return status.Error(codes.Unimplemented, "unknown service") }

func TestEachServiceIsProbedByAMethodOfItsOwn(t *testing.T) {
	var called atomic.Pointer[string]
	clients := dial(t, at(answering(t, func(method string, request []byte) error {
		if len(request) > 0 {
			t.Errorf("%s: a probe sends fields: %x", method, request)
		}
		called.Store(&method)
		return errProbed
	})), backendclient.ProbePatiently)
	for service, want := range map[string]string{
		"fleet":      "/ops.fleet.v1.FleetService/ListServers",
		"monitoring": "/ops.monitoring.v1.MonitoringService/ListMonitors",
		"incident":   "/ops.incident.v1.IncidentService/ListIncidents",
		"audit":      "/ops.audit.v1.AuditService/ListAuditEntries",
		"identity":   "/ops.identity.v1.IdentityService/ResolveToken",
	} {
		testkit.Must(t, clients.Probe(t.Context(), service))
		if got := *called.Load(); got != want {
			t.Errorf("%s: the probe calls %s, want %s", service, got, want)
		}
	}
}

// A probe has no effect on metrics, the breaker or ejections, whatever the answer.
func TestAProbeIsNoCall(t *testing.T) {
	for code, want := range map[codes.Code]string{
		codes.NotFound: "", codes.PermissionDenied: "the answer", codes.Unauthenticated: "the answer", codes.Internal: "", codes.Unavailable: "the answer",
		codes.Unimplemented: "wrong service at this address: 127.0.0.1:",
	} {
		registry := prometheus.NewRegistry()
		answer := func(string, []byte) error { return status.Error(code, "the answer") }
		clients := dial(t, at("static:///"+answering(t, answer)+","+answering(t, answer)), backendclient.ProbePatiently,
			func(o *backendclient.Options) { o.Registerer = registry })
		for range 50 {
			err := clients.Probe(t.Context(), "fleet")
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Fatalf("%v: Probe returned %v, want %q", code, err, want)
			}
		}
		if got := series(t, registry, "opsgate_upstream_request_duration_seconds"); len(got) > 0 {
			t.Errorf("%v: probes are measured: %v", code, got)
		}
		if b := clients.Services()["fleet"].Breaker; b.State != breaker.Closed {
			t.Errorf("%v: the breaker is %s", code, b.State)
		}
		for _, e := range clients.Services()["fleet"].Endpoints {
			if e.State == endpoints.Ejected || e.InFlight > 0 {
				t.Errorf("%v: endpoint %+v", code, e)
			}
		}
	}
}

// One of two endpoints is of another service, is found, and is replaced by the right one and again
// by another.
func TestAnEndpointOfAnotherServiceIsFoundUntilItIsReplaced(t *testing.T) {
	right := func(string, []byte) error { return errProbed }
	address := testkit.FreeAddress(t)
	stop := serveAnswers(t, listen(t, address), unimplemented)
	upstreams := at(answering(t, right))
	upstreams.Incident.Address = "static:///" + upstreams.Audit.Address + "," + address
	clients := dial(t, upstreams, backendclient.Quicken)
	runProbes(t, clients)
	wrong := func() *backendclient.WrongEndpoints { return clients.Services()["incident"].Wrong }
	eventually(t, clients, func() bool { return wrong() != nil && !clients.Services()["incident"].Reached.IsZero() })
	if w := wrong(); !slices.Equal(w.Addresses, []string{address}) || w.Since.IsZero() || clients.Services()["audit"].Wrong != nil {
		t.Errorf("wrong services: %+v", w)
	}
	stop()
	stop = serveAnswers(t, listen(t, address), right)
	eventually(t, clients, func() bool { return wrong() == nil })
	stop()
	serveAnswers(t, listen(t, address), unimplemented)
	eventually(t, clients, func() bool { return wrong() != nil })
}

// A gatedListener accepts connections only after open is closed.
type gatedListener struct {
	net.Listener

	open <-chan struct{}
}

func (l gatedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	<-l.open
	return conn, err
}

// answers calls a function when the first call of a server has ended: that of health.
type answers struct {
	connections

	first func()
}

func (a answers) HandleConn(context.Context, stats.ConnStats) {}
func (a answers) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, ended := s.(*stats.End); ended {
		a.first()
	}
}

// One of two endpoints of a new address is of another service, and is connected after the other one
// is ready.
func TestAnAddressIsRefusedForAnEndpointThatConnectsLater(t *testing.T) {
	here := startPlace(t)
	clients := dial(t, here.only(), backendclient.ProbePatiently)
	open := make(chan struct{})
	right, wrong := listen(t, "127.0.0.1:0"), gatedListener{listen(t, "127.0.0.1:0"), open}
	serveAnswers(t, right, func(string, []byte) error { return errProbed }, grpc.StatsHandler(answers{first: sync.OnceFunc(func() { close(open) })}))
	serveAnswers(t, wrong, unimplemented)
	to := here.only()
	to.Audit.Address = "static:///" + right.Addr().String() + "," + wrong.Addr().String()
	_, err := clients.Prepare(to)
	refused, _ := errors.AsType[*backendclient.ChangeError](err)
	of, _ := errors.AsType[*backendclient.WrongServiceError](err)
	if refused == nil || refused.Service != "audit" || of == nil || of.Address != wrong.Addr().String() {
		t.Errorf("Prepare returned %v", err)
	}
	testkit.Must(t, getServer(t, clients))
}

// The probes of two changed services wait for each other.
func TestChangedServicesAreProbedAtTheSameTime(t *testing.T) {
	here := startPlace(t)
	clients := dial(t, here.only())
	both := make(chan struct{}, 2)
	var arrived atomic.Int32
	meet := func(string, []byte) error {
		if arrived.Add(1) == 2 {
			both <- struct{}{}
			both <- struct{}{}
		}
		<-both
		return errProbed
	}
	to := here.only()
	to.Audit.Address, to.Incident.Address = answering(t, meet), answering(t, func(method string, request []byte) error {
		_ = meet(method, request)
		return status.Error(codes.Unimplemented, "unknown service")
	})
	_, err := clients.Prepare(to)
	refused, _ := errors.AsType[*backendclient.ChangeError](err)
	if refused == nil || refused.Service != "incident" {
		t.Errorf("Prepare returned %v", err)
	}
	for range 2 { // ends the calls if only one was made
		select {
		case both <- struct{}{}:
		default:
		}
	}
}

// The result of a probe does not wait for those of other endpoints.
func TestAWrongEndpointIsFoundWhileAnotherDoesNotAnswer(t *testing.T) {
	release := make(chan struct{})
	hanging := answering(t, func(string, []byte) error { <-release; return errProbed })
	defer close(release)
	upstreams := at("passthrough:///x")
	upstreams.Audit.Address = "static:///" + hanging + "," + answering(t, unimplemented)
	clients := dial(t, upstreams, backendclient.ProbePatiently)
	eventually(t, clients, func() bool {
		all := clients.Services()["audit"].Endpoints
		return len(all) == 2 && all[0].State == endpoints.Ready && all[1].State == endpoints.Ready
	})
	runProbes(t, clients)
	testkit.Eventually(t, "the wrong endpoint is found while the other one does not answer", func() bool {
		return clients.Services()["audit"].Wrong != nil
	})
}
