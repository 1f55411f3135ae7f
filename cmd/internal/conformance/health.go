package conformance

import (
	"context"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"opsgate/proto/contract"
)

// healthChecks are those of the one service that the edge asks of everybody, by the name of the service behind it.
func healthChecks() []Check {
	var checks []Check
	for _, service := range contract.Services() {
		checks = append(checks, Check{
			Name:     service.Name + "/Health/serving",
			Sentence: "grpc.health.v1.Health says of the service, by its full name, that it is SERVING.",
			look: func(ctx context.Context, s *subject) error {
				name := service.FullName
				health, err := healthv1.NewHealthClient(s.conns[service.Name]).Check(ctx, &healthv1.HealthCheckRequest{Service: name})
				if err != nil {
					return expected("SERVING of "+name, "%s", ended(err))
				}
				if health.GetStatus() != healthv1.HealthCheckResponse_SERVING {
					return expected("SERVING of "+name, "%v", health.GetStatus())
				}
				return nil
			},
		})
	}
	return checks
}
