package backendclient

import (
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // registers the client-side health check of the service configuration
	"google.golang.org/grpc/keepalive"
)

const (
	// Flow-control windows are static, because dynamic windows cost a ping for every burst of data.
	// An ordinary response fits into a window, so that no stream waits for a window update.
	streamWindow     = 1 << 20
	connectionWindow = 4 << 20

	// maxHeaderBytes is enough for the details of an error with maxViolations; the default is 16
	// MB.
	maxHeaderBytes = 256 << 10
)

// dialOptions returns the dial options of a connection to a service.
func dialOptions(o Options, u *upstream, c *connection) ([]grpc.DialOption, error) {
	creds, err := transportCredentials(c.target, u.logger.With(slog.String("service", u.service)))
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		// A proxy in the environment is for the Internet, and with a proxy, gRPC would not use this
		// package's resolver of names.
		grpc.WithNoProxy(),
		grpc.WithUserAgent("opsgate/" + o.Version),
		grpc.WithMaxHeaderListSize(maxHeaderBytes),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connectionWindow),

		// Service configurations from DNS are ignored. WithDisableRetry does not disable gRPC's
		// transparent retries of calls that never reached a server.
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),

		// Reconnect within seconds (the default is up to two minutes), and keep idle connections,
		// so that the states are accurate and no request waits for a new connection.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: 3 * time.Second},
			MinConnectTimeout: 3 * time.Second,
		}),
		grpc.WithIdleTimeout(0),

		// The kernel closes a connection if sent data is not acknowledged for Timeout, so a dead
		// peer is detected while calls are made. Where the health protocol is served, gRPC sends a
		// PING every Time even without calls, because the health check is an open stream. A Go
		// server with default settings allows one PING in 5 minutes.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 6 * time.Minute, Timeout: 5 * time.Second}),

		grpc.WithChainUnaryInterceptor(u.intercept),
		grpc.WithChainStreamInterceptor(u.interceptStream(c)),
	}
	return slices.Concat(options, c.endpoints.DialOptions(c.target.Address), o.DialOptions), nil
}

func transportCredentials(target Target, logger *slog.Logger) (credentials.TransportCredentials, error) {
	if target.TLS == nil {
		return insecure.NewCredentials(), nil
	}
	return newFileCredentials(*target.TLS, logger)
}
