package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"opsgate/proto/contract"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

const (
	// drainTimeout is how long calls in progress may take after ctx has ended.
	drainTimeout = 10 * time.Second
	// maxMessage bounds requests. The largest valid one has 10,000 characters and 100 ids.
	maxMessage = 256 << 10
	// maxStreams bounds the concurrent calls of one connection; gRPC has no bound by default.
	maxStreams = 1000
	// minPing is the shortest interval of keepalive pings; the default of gRPC is five minutes.
	minPing = 5 * time.Second
)

// Names returns the names of the services that a backend can serve.
func Names() []string {
	var names []string
	for _, service := range contract.Services() {
		names = append(names, service.Name)
	}
	return names
}

// CheckServices returns an error that names the unknown services, or nil.
func CheckServices(names []string) error {
	var unknown []string
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("unknown service: %s (services: %s)",
			strings.Join(unknown, ", "), strings.Join(Names(), ", "))
	}
	return nil
}

// Serve serves the named services, or all of them if none is named, and health checks, until ctx
// ends. It then waits up to ten seconds for calls in progress, ends streams with UNAVAILABLE,
// closes the listener and returns nil.
func (b *Backend) Serve(ctx context.Context, listener net.Listener, services ...string) error {
	if err := CheckServices(services); err != nil {
		return errors.Join(err, listener.Close())
	}
	if len(services) == 0 {
		services = Names()
	}
	return b.serve(ctx, listener, serverOptions{
		tls: b.options.TLS, interceptors: append(b.unaryInterceptors(), requireTeam),
		register: func(server *grpc.Server) {
			for _, name := range services {
				b.register(ctx, server, name)
			}
			if b.options.Reflection {
				reflection.Register(server)
			}
		},
	})
}

// serverOptions are what the listeners of a backend differ in.
type serverOptions struct {
	tls          *tls.Config // nil for plaintext
	interceptors []grpc.UnaryServerInterceptor
	options      []grpc.ServerOption // in addition to those of all listeners, which they replace
	register     func(*grpc.Server)  // adds services
}

// serve serves on the listener until ctx ends, as Serve does.
func (b *Backend) serve(ctx context.Context, listener net.Listener, o serverOptions) error {
	transport := insecure.NewCredentials()
	if o.tls != nil {
		transport = credentials.NewTLS(o.tls)
	}
	server := grpc.NewServer(append([]grpc.ServerOption{
		grpc.Creds(transport),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(o.interceptors...),
		grpc.ChainStreamInterceptor(b.streamInterceptors()...),
	}, o.options...)...)
	checks := health.NewServer()
	o.register(server)
	for name := range server.GetServiceInfo() {
		checks.SetServingStatus(name, healthv1.HealthCheckResponse_SERVING)
	}
	healthv1.RegisterHealthServer(server, checks)

	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve gRPC: %w", err)
	case <-ctx.Done():
	}
	checks.Shutdown()
	drain(server)
	// ErrServerStopped: ctx ended before server.Serve began.
	if err := <-failed; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve gRPC: %w", err)
	}
	return nil
}

// register adds a service to the server. ctx ends when the server begins to stop.
func (b *Backend) register(ctx context.Context, server *grpc.Server, name string) {
	switch name {
	case "fleet":
		fleetv1.RegisterFleetServiceServer(server, &fleetService{Backend: b})
	case "monitoring":
		monitoringv1.RegisterMonitoringServiceServer(server, &monitoringService{Backend: b})
	case "incident":
		incidentv1.RegisterIncidentServiceServer(server, b.Incidents())
	case "audit":
		auditv1.RegisterAuditServiceServer(server, &auditService{Backend: b})
	default:
		identityv1.RegisterIdentityServiceServer(server, &identityService{Backend: b, stopping: ctx.Done()})
	}
}

// drain stops the server once all calls have ended, or after drainTimeout.
func drain(server *grpc.Server) {
	timer := time.AfterFunc(drainTimeout, server.Stop)
	defer timer.Stop()
	server.GracefulStop()
}
