package conformance

import (
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"opsgate/proto/contract"
)

// healthCheck returns the check of the health service for one service.
func healthCheck(service contract.Service) Check {
	return Check{
		Name: service.Name + "/Health/serving", Sentence: "grpc.health.v1.Health reports SERVING for the full name of the service.",
		run: func(p *probe) {
			client := healthv1.NewHealthClient(p.conns[service.Name])
			health, err := client.Check(p.ctx, &healthv1.HealthCheckRequest{Service: service.FullName})
			require(err == nil, "SERVING for "+service.FullName, "%s", resultText(err))
			require(health.GetStatus() == healthv1.HealthCheckResponse_SERVING, "SERVING for "+service.FullName, "%v", health.GetStatus())
		},
	}
}
