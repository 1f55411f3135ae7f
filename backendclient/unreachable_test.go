package backendclient_test

import (
	"errors"
	"log/slog"

	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"opsgate/backendclient"
	"opsgate/backendclient/endpoints"
	"opsgate/internal/certs"
	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit/grpctest"
)

// serveHTTP1 serves HTTP/1.1, with TLS if an authority is given, and returns its address.
func serveHTTP1(t *testing.T, a *certstest.Authority) (address string) {
	t.Helper()
	listener := listen(t, "127.0.0.1:0")
	server := &http.Server{Protocols: new(http.Protocols), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	server.Protocols.SetHTTP1(true)
	serve := func() error { return server.Serve(listener) }
	if a != nil {
		server.TLSConfig = a.Config(t, "fleet.example")
		serve = func() error { return server.ServeTLS(listener, "", "") }
	}
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return listener.Addr().String()
}

// serveHealth serves a health check with a status, and returns its address.
func serveHealth(t *testing.T, status healthv1.HealthCheckResponse_ServingStatus) (address string) {
	t.Helper()
	listener, server, checks := listen(t, "127.0.0.1:0"), grpc.NewServer(), health.NewServer()
	checks.SetServingStatus("", status)
	healthv1.RegisterHealthServer(server, checks)
	grpctest.Serve(t, server, listener)
	return listener.Addr().String()
}

// The log, the state of the service and the error of a probe have the reason of a failed
// connection. No call is made.
func TestFailedConnectionHasItsReason(t *testing.T) {
	known, other := certstest.NewAuthority(t, "known"), certstest.NewAuthority(t, "other")
	secured := secured(t, known).listener.Addr().String()
	plain := listen(t, "127.0.0.1:0")
	(&backend{}).serve(t, plain)
	files := func(change func(*certs.ClientFiles)) *certs.ClientFiles {
		f := write(t, t.TempDir(), known, "gateway")
		change(f)
		return f
	}
	unchanged := func(*certs.ClientFiles) {}
	for _, test := range []struct {
		name, address string
		files         *certs.ClientFiles
		reason        string // its beginning
	}{
		{"roots of others", secured, files(func(f *certs.ClientFiles) { f.CAFile = write(t, t.TempDir(), other, "x").CAFile }),
			"TLS: the certificate is of an unknown authority"},
		{"roots of the system", secured, files(func(f *certs.ClientFiles) { f.CAFile = "" }), "TLS: the certificate is of an unknown authority"},
		{"another name", secured, files(func(f *certs.ClientFiles) { f.ServerName = "audit.example" }), "TLS: the certificate is for another name"},
		{"no certificate of ours", secured, files(func(f *certs.ClientFiles) { f.CertFile, f.KeyFile = "", "" }), "TLS: the service "},
		{"a certificate of others", secured, files(func(f *certs.ClientFiles) {
			o := write(t, t.TempDir(), other, "x")
			f.CertFile, f.KeyFile = o.CertFile, o.KeyFile
		}), "TLS: the service "},
		{"TLS to a service without", plain.Addr().String(), files(unchanged), "TLS: the service does not use it"},
		{"no TLS to a service with it", secured, nil, "not HTTP/2: the service closes the connection; it may require TLS"},
		{"HTTP/1.1", serveHTTP1(t, nil), nil, "not HTTP/2"},
		{"HTTP/1.1 with TLS", serveHTTP1(t, known), files(func(f *certs.ClientFiles) { f.CertFile, f.KeyFile = "", "" }), "not HTTP/2 over TLS (ALPN)"},
		{"no server", "127.0.0.1:1", nil, "connection refused"},
		{"no socket", "unix:///nowhere/fleet", nil, "the socket does not exist"},
		{"a name that does not exist", "dns:///fleet.invalid:9000", nil, "the name does not resolve"},
		{"such a name in a list", "static:///fleet.invalid:9000", nil, "the name does not resolve"},
		{"not serving", serveHealth(t, healthv1.HealthCheckResponse_NOT_SERVING), nil, "the health check reports NOT_SERVING"},
	} {
		t.Run(test.name, func(t *testing.T) {
			upstreams, log := at("passthrough:///x"), make(lines, 100)
			upstreams.Fleet = backendclient.Target{Address: test.address, TLS: test.files}
			clients := dial(t, upstreams, func(o *backendclient.Options) { o.Logger = slog.New(log) })
			if e := failure(t, getServer(t, clients)); e.Code != codes.Unavailable {
				t.Errorf("%v, want Unavailable", e)
			}
			probed, _ := errors.AsType[*endpoints.UnreachableError](clients.Probe(t.Context(), "fleet"))
			state := clients.Services()["fleet"].Unreachable.Reason
			if probed == nil || !strings.HasPrefix(probed.Reason, test.reason) || !strings.HasPrefix(state, test.reason) {
				t.Errorf("a probe fails with %v, and the state is %q, want %q", probed, state, test.reason)
			}
			want := "internal service is unavailable service=fleet reason=" + test.reason
			for line := range log {
				if strings.HasPrefix(line, "internal service is unavailable service=fleet") {
					if !strings.HasPrefix(line, want) {
						t.Errorf("logged %q, want %q", line, want)
					}
					break
				}
			}
		})
	}
}

// A proxy accepts connections for a service that is away: the service is reached when a probe finds
// it, and stays reached.
func TestServiceBehindAProxyIsReachedWhenItAnswers(t *testing.T) {
	var back, away = make(chan struct{}), status.Error(codes.Unavailable, "no healthy upstream")
	address := answering(t, func(string, []byte) error {
		select {
		case <-back:
			return errProbed
		default:
			return away
		}
	})
	upstreams, log := at("passthrough:///x"), make(lines, 100)
	upstreams.Fleet.Address = address
	clients := dial(t, upstreams, backendclient.Quicken, func(o *backendclient.Options) { o.Logger = slog.New(log) })
	runProbes(t, clients)
	const reason = "connected, and no answer to a probe: Unavailable"
	for line := range log {
		if strings.HasPrefix(line, "internal service is unavailable service=fleet reason="+reason) {
			break
		}
	}
	if s := clients.Services()["fleet"]; s.Unreachable.Reason != reason || !s.Reached.IsZero() {
		t.Errorf("before: unreachable for %q, reached %v", s.Unreachable, s.Reached)
	}
	close(back)
	eventually(t, clients, func() bool { return !clients.Services()["fleet"].Reached.IsZero() })
	if e := clients.Services()["fleet"].Unreachable; e != nil {
		t.Errorf("after: unreachable: %v", e)
	}
}
