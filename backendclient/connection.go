package backendclient

import (
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // health checks by the client, which the service configuration asks for
	"google.golang.org/grpc/keepalive"
)

const (
	// Windows of a fixed size: sizing them by measurement costs a ping for every burst of data. They hold a whole
	// ordinary answer, so that no stream waits for an update.
	streamWindow     = 1 << 20
	connectionWindow = 4 << 20

	// maxHeaderBytes holds the details of an error with the most violations we take; the library would allow 16 MB.
	maxHeaderBytes = 256 << 10
)

// dialOptions are those of every connection.
func dialOptions(o Options, s service, calls calls) ([]grpc.DialOption, error) {
	secured, err := transportCredentials(o, s)
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(secured),
		grpc.WithUserAgent("opsgate/" + o.Version),
		grpc.WithMaxHeaderListSize(maxHeaderBytes),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connectionWindow),

		// Calls go to all processes of a service. One that is gone is left out, and so is one that says that it does not serve
		// (grpc.health.v1); one that knows nothing of that protocol is taken to serve. We ask for the health of the whole
		// process, "": every server with the protocol has it, while one that does not name its services would seem away.
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"` + leastBusy + `":{}}],"healthCheckConfig":{"serviceName":""}}`),
		// What DNS says of a service is its addresses: its configuration, retries with it, is ours. The library still repeats
		// by itself what no server has seen.
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),

		// A service that comes back is found within seconds (the library would wait up to two minutes), and a connection
		// stays up when nobody calls, so that States is true and no request pays for a new one.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 3 * time.Second,
		}),
		grpc.WithIdleTimeout(0),

		// A peer that vanished without a word is noticed while a call waits for it. Idle connections are not pinged:
		// servers with default settings end those that do.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 5 * time.Second}),
	}
	options = append(options, interceptors(calls)...)
	return append(options, o.DialOptions...), nil
}

func transportCredentials(o Options, s service) (credentials.TransportCredentials, error) {
	files := s.upstream(o.Upstreams).TLS
	if files == nil {
		return insecure.NewCredentials(), nil
	}
	return newFileCredentials(*files, o.Logger.With(slog.String("service", s.name)))
}
