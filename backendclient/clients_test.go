package backendclient_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"opsgate/backendclient"
	"opsgate/internal/certs"
	"opsgate/internal/testkit"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

func TestEachClientReachesItsService(t *testing.T) {
	c, ctx := over(t, &backend{}), t.Context()
	for want, err := range map[string]error{
		"fleet.ListServers":       errorOf(c.Fleet.ListServers(ctx, &fleetv1.ListServersRequest{})),
		"monitoring.ListMonitors": errorOf(c.Monitoring.ListMonitors(ctx, &monitoringv1.ListMonitorsRequest{})),
		"incident.ListIncidents":  errorOf(c.Incident.ListIncidents(ctx, &incidentv1.ListIncidentsRequest{})),
		"audit.ListAuditEntries":  errorOf(c.Audit.ListAuditEntries(ctx, &auditv1.ListAuditEntriesRequest{})),
		"identity.ResolveToken":   errorOf(c.Identity.ResolveToken(ctx, &identityv1.ResolveTokenRequest{})),
	} {
		e := failure(t, err)
		if got := e.Service + "." + e.Method; got != want || e.Code != codes.InvalidArgument {
			t.Errorf("%s: %v, want %s", got, e.Code, want)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }

// What a service receives of us, here over a Unix socket, and a large response of it.
func TestACallHasItsHeadersAndReturnsAllOfTheResponse(t *testing.T) {
	path, name := t.TempDir()+"/fleet.sock", strings.Repeat("n", 1<<20)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	testkit.Must(t, err)
	(&backend{getServer: func(ctx context.Context) (*fleetv1.GetServerResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		for key, want := range map[string]string{
			":authority": "localhost", "content-type": "application/grpc", "user-agent": "opsgate/1.2.3 ",
		} {
			if got := md.Get(key); len(got) != 1 || !strings.HasPrefix(got[0], want) {
				t.Errorf("%s: %q, want %q", key, got, want)
			}
		}
		return &fleetv1.GetServerResponse{Server: &fleetv1.Server{Name: name}}, nil
	}}).serve(t, listener)
	clients := dial(t, fleetAt("unix://"+path), func(o *backendclient.Options) { o.Version = "1.2.3" })
	response, err := clients.Fleet.GetServer(t.Context(), &fleetv1.GetServerRequest{})
	if err != nil || response.GetServer().GetName() != name {
		t.Errorf("%d bytes: %v", len(response.GetServer().GetName()), err)
	}
}

func TestACallEndsBeforeItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := overWire(t, &wire{answer: hang})
		for timeout, want := range map[time.Duration]time.Duration{
			time.Hour:            time.Hour - 10*time.Millisecond,
			5 * time.Millisecond: 0,
			0:                    5 * time.Second, // no deadline
		} {
			begin := time.Now()
			ctx, cancel := t.Context(), func() {}
			if timeout > 0 {
				ctx, cancel = context.WithTimeout(ctx, timeout)
			}
			_, err := clients.Fleet.GetServer(ctx, &fleetv1.GetServerRequest{})
			if e := failure(t, err); e.Code != codes.DeadlineExceeded || time.Since(begin) != want || ctx.Err() != nil {
				t.Errorf("%v after %v, want %v", e, time.Since(begin), want)
			}
			cancel()
		}
	})
}

// lines is a log handler that sends each message with its attributes.
type lines chan string

func (l lines) Enabled(context.Context, slog.Level) bool { return true }
func (l lines) WithAttrs(attrs []slog.Attr) slog.Handler { return attributed{l, attrs} }
func (l lines) WithGroup(string) slog.Handler            { return l }
func (l lines) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	l <- line
	return nil
}

// attributed are lines with more attributes.
type attributed struct {
	lines

	attrs []slog.Attr
}

func (l attributed) Handle(ctx context.Context, r slog.Record) error {
	line := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	line.AddAttrs(l.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		line.AddAttrs(a)
		return true
	})
	return l.lines.Handle(ctx, line)
}

func TestAServiceBecomesUnavailableAndAvailableAgain(t *testing.T) {
	log := make(lines, 100)
	upstreams := at("passthrough:///elsewhere")
	upstreams.Fleet.Address = "passthrough:///fleet"
	var address atomic.Pointer[string] // of the fleet service; nil while it is unavailable
	began := time.Now()
	clients := dial(t, upstreams, func(o *backendclient.Options) {
		o.Logger = slog.New(log)
		o.DialOptions = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			if to == "elsewhere" {
				<-ctx.Done() // a service that does not respond
				return nil, ctx.Err()
			}
			if at := address.Load(); at != nil {
				return (&net.Dialer{}).DialContext(ctx, "tcp", *at)
			}
			return nil, syscall.ECONNREFUSED
		}), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second},
			MinConnectTimeout: time.Hour, // no attempt to connect to the others ends
		})}
	})
	if got, want := <-log, "internal service is unavailable service=fleet reason=connection refused "; !strings.HasPrefix(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
	since := clients.Services()["fleet"].UnavailableSince
	if since.Before(began) || since.After(time.Now()) {
		t.Errorf("unreachable since %v; the outage began at %v", since, began)
	}
	if e := failure(t, callFor(t, clients, time.Hour)); e.Code != codes.Unavailable { // before the deadline
		t.Errorf("code %v", e.Code)
	}
	all := clients.Services()
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, []string{"audit", "fleet", "identity", "incident", "monitoring"}) {
		t.Errorf("services %q", got)
	}
	if s := all["fleet"]; s.Connection == connectivity.Ready || !s.UnavailableSince.Equal(since) {
		t.Errorf("after an attempt to connect: %v, unreachable since %v, want %v", s.Connection, s.UnavailableSince, since)
	}
	if s := all["audit"]; s.Connection != connectivity.Connecting || s.UnavailableSince.IsZero() {
		t.Errorf("a service that does not respond: %v, unreachable since %v", s.Connection, s.UnavailableSince)
	}
	listener := listen(t, "127.0.0.1:0")
	failing(t, status.New(codes.NotFound, "none")).serve(t, listener)
	back := listener.Addr().String()
	address.Store(&back)
	if got, want := <-log, "internal service is available again service=fleet"; !strings.HasPrefix(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
	if e := failure(t, getServer(t, clients)); e.Code != codes.NotFound {
		t.Errorf("code %v", e.Code)
	}
	if s := clients.Services()["fleet"]; s.Connection != connectivity.Ready || !s.UnavailableSince.IsZero() {
		t.Errorf("%v, unreachable since %v", s.Connection, s.UnavailableSince)
	}
}

func TestAStreamHasNoDeadlineAndReturnsErrors(t *testing.T) {
	b := &backend{watchRevocations: func(r *identityv1.WatchRevocationsRequest, stream watchServer) error {
		if _, bounded := stream.Context().Deadline(); bounded {
			return status.Error(codes.Internal, "the stream has a deadline")
		}
		if r.GetAfterPosition() == "end" {
			return nil
		}
		if err := stream.Send(&identityv1.WatchRevocationsResponse{Position: "1"}); err != nil {
			return err
		}
		return status.Error(codes.OutOfRange, "position expired")
	}}
	clients := over(t, b)
	stream, err := clients.Identity.WatchRevocations(t.Context(), &identityv1.WatchRevocationsRequest{})
	testkit.Must(t, err)
	if m, err := stream.Recv(); err != nil || m.GetPosition() != "1" {
		t.Fatalf("Recv = %v, %v", m, err)
	}
	_, err = stream.Recv()
	if e := failure(t, err); e.Code != codes.OutOfRange || e.Service != "identity" || e.Method != "WatchRevocations" {
		t.Errorf("error %v", err)
	}

	stream, err = clients.Identity.WatchRevocations(t.Context(), &identityv1.WatchRevocationsRequest{AfterPosition: "end"})
	testkit.Must(t, err)
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("a stream that ended well: %v, want io.EOF", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = clients.Identity.WatchRevocations(ctx, &identityv1.WatchRevocationsRequest{})
	if e := failure(t, err); e.Code != codes.Canceled || !errors.Is(e, context.Canceled) {
		t.Errorf("a stream that cannot be opened: %v", err)
	}
}

func TestDialRefusesInvalidOptions(t *testing.T) {
	taken := prometheus.NewRegistry()
	dial(t, at("passthrough:///x"), func(o *backendclient.Options) { o.Registerer = taken })
	for name, change := range map[string]func(*backendclient.Options){
		"no address":                  func(o *backendclient.Options) { o.Upstreams.Audit.Address = "" },
		"an address of no kind":       func(o *backendclient.Options) { o.Upstreams.Fleet.Address = "fleet.internal:9000\n" },
		"no calls in flight":          func(o *backendclient.Options) { o.MaxInFlight = 0 },
		"metrics registered twice":    func(o *backendclient.Options) { o.Registerer = taken },
		"TLS files that do not exist": func(o *backendclient.Options) { o.Upstreams.Audit.TLS = &certs.ClientFiles{CAFile: "nowhere.pem"} },
	} {
		o := backendclient.Options{Upstreams: at("passthrough:///x"), Settings: backendclient.DefaultSettings()}
		change(&o)
		if _, err := backendclient.Dial(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A limitedRegisterer refuses all registrations after the first ones.
type limitedRegisterer struct {
	prometheus.Registerer

	left int
}

var errRegistererFull = errors.New("no more registrations")

func (r *limitedRegisterer) Register(c prometheus.Collector) error {
	if r.left == 0 {
		return errRegistererFull
	}
	r.left--
	return r.Registerer.Register(c)
}

func TestAFailedDialLeavesNoMetricRegistered(t *testing.T) {
	registry := prometheus.NewRegistry()
	invalid := at("passthrough:///x")
	invalid.Audit.TLS = &certs.ClientFiles{CAFile: "nowhere.pem"}
	if _, err := backendclient.Dial(backendclient.Options{Upstreams: invalid, Registerer: registry}); err == nil {
		t.Fatal("no error")
	}
	for allowed := 0; ; allowed++ { // if a failed Dial left a metric, the next one would get another error than the one of the registerer
		clients, err := backendclient.Dial(backendclient.Options{
			Upstreams: at("passthrough:///x"), Registerer: &limitedRegisterer{Registerer: registry, left: allowed},
		})
		if err == nil {
			testkit.Must(t, clients.Close())
			return
		}
		if !errors.Is(err, errRegistererFull) {
			t.Fatalf("with %d registrations: %v", allowed, err)
		}
	}
}

func TestClosedClientsFailAtOnce(t *testing.T) {
	clients, err := backendclient.Dial(backendclient.Options{Upstreams: at("passthrough:///x")})
	testkit.Must(t, err)
	testkit.Must(t, clients.Close())
	if e := failure(t, getServer(t, clients)); e.Code != codes.Canceled || errors.Is(e, context.Canceled) {
		t.Errorf("code %v, error %v", e.Code, e)
	}
	if err := clients.Close(); err == nil {
		t.Error("closed twice without an error")
	}
}
