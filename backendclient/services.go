package backendclient

import (
	"google.golang.org/grpc"

	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// The short names of the services, as in errors, logs, metrics and statuses.
const (
	fleet      = "fleet"
	monitoring = "monitoring"
	incident   = "incident"
	audit      = "audit"
	identity   = "identity"
)

// A service is a row of the services table.
type service struct {
	name        string
	description *grpc.ServiceDesc
	target      func(Upstreams) Target
}

// unary returns the names of the unary methods.
func (s service) unary() (names []string) {
	for _, m := range s.description.Methods {
		names = append(names, m.MethodName)
	}
	return names
}

// services returns the services table.
func services() []service {
	return []service{
		{fleet, &fleetv1.FleetService_ServiceDesc, func(u Upstreams) Target { return u.Fleet }},
		{monitoring, &monitoringv1.MonitoringService_ServiceDesc, func(u Upstreams) Target { return u.Monitoring }},
		{incident, &incidentv1.IncidentService_ServiceDesc, func(u Upstreams) Target { return u.Incident }},
		{audit, &auditv1.AuditService_ServiceDesc, func(u Upstreams) Target { return u.Audit }},
		{identity, &identityv1.IdentityService_ServiceDesc, func(u Upstreams) Target { return u.Identity }},
	}
}
