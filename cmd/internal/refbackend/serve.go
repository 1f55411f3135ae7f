package refbackend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
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
	// drainTimeout is how long calls may go on after Serve was told to stop.
	drainTimeout = 10 * time.Second
	// maxMessage is far above the largest request, 10,000 characters and 100 ids.
	maxMessage = 256 << 10
	// maxStreams bounds the concurrent calls of one connection, which gRPC does not do by itself.
	maxStreams = 1000
	// minPing is how often clients may ask whether the connection is alive; gRPC would cut them off below five minutes.
	minPing = 5 * time.Second
)

// ServiceNames returns the names of the services that a backend can serve.
func ServiceNames() []string {
	var names []string
	for _, service := range contract.Services() {
		names = append(names, service.Name)
	}
	return names
}

// CheckServices returns an error that names the services that do not exist.
func CheckServices(names []string) error {
	var unknown []string
	for _, name := range names {
		if !slices.Contains(ServiceNames(), name) {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("no such service: %s (there are %s)",
			strings.Join(unknown, ", "), strings.Join(ServiceNames(), ", "))
	}
	return nil
}

// Serve answers calls to the named services, or to all of them if none is named, until ctx ends. It then lets calls under way
// finish for ten seconds, ends the streams with UNAVAILABLE, and returns nil. It closes the listener. Health checking is always served.
func (b *Backend) Serve(ctx context.Context, listener net.Listener, services ...string) error {
	if err := CheckServices(services); err != nil {
		return errors.Join(err, listener.Close())
	}
	if len(services) == 0 {
		services = ServiceNames()
	}
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(b.unaryInterceptors()...),
		grpc.ChainStreamInterceptor(b.streamInterceptors()...),
	)
	checks := health.NewServer()
	for _, name := range services {
		checks.SetServingStatus(b.register(ctx, server, name), healthv1.HealthCheckResponse_SERVING)
	}
	healthv1.RegisterHealthServer(server, checks)
	if b.reflection {
		reflection.Register(server)
	}

	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve gRPC: %w", err)
	case <-ctx.Done():
	}
	checks.Shutdown()
	drain(server)
	// ErrServerStopped: told to stop before it began.
	if err := <-failed; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve gRPC: %w", err)
	}
	return nil
}

// register adds a service to the server and returns its full name. ctx ends when the server begins to stop.
func (b *Backend) register(ctx context.Context, server *grpc.Server, name string) string {
	switch name {
	case "fleet":
		fleetv1.RegisterFleetServiceServer(server, &fleetService{store: b.store, clock: b.clock})
		return fleetv1.FleetService_ServiceDesc.ServiceName
	case "monitoring":
		monitoringv1.RegisterMonitoringServiceServer(server, &monitoringService{store: b.store, clock: b.clock})
		return monitoringv1.MonitoringService_ServiceDesc.ServiceName
	case "incident":
		incidentv1.RegisterIncidentServiceServer(server,
			&incidentService{store: b.store, clock: b.clock, inFlight: b.inFlight})
		return incidentv1.IncidentService_ServiceDesc.ServiceName
	case "audit":
		auditv1.RegisterAuditServiceServer(server, &auditService{store: b.store})
		return auditv1.AuditService_ServiceDesc.ServiceName
	default:
		identityv1.RegisterIdentityServiceServer(server, &identityService{Backend: b, stopping: ctx.Done()})
		return identityv1.IdentityService_ServiceDesc.ServiceName
	}
}

// drain stops the server: gracefully if its calls end in time, else at once.
func drain(server *grpc.Server) {
	impatient := time.AfterFunc(drainTimeout, server.Stop)
	defer impatient.Stop()
	server.GracefulStop()
}
