package conformance

import (
	"context"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"opsgate/proto/contract"
)

// healthChecks returns one check of the health service for each service.
func healthChecks() []Check {
	var checks []Check
	for _, service := range contract.Services() {
		checks = append(checks, Check{
			Name:     service.Name + "/Health/serving",
			Sentence: "grpc.health.v1.Health reports SERVING for the full name of the service.",
			run: func(ctx context.Context, s *subject) error {
				name := service.FullName
				health, err := healthv1.NewHealthClient(s.conns[service.Name]).Check(ctx, &healthv1.HealthCheckRequest{Service: name})
				if err != nil {
					return expected("SERVING for "+name, "%s", resultText(err))
				}
				if health.GetStatus() != healthv1.HealthCheckResponse_SERVING {
					return expected("SERVING for "+name, "%v", health.GetStatus())
				}
				return nil
			},
		})
	}
	return checks
}
