package wiring

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/httpserver"
	"opsgate/cmd/internal/gate/sizing"
	"opsgate/cmd/internal/kit/certs"
)

// Limits of the admin listener. A response may take long there: a profile lasts as long as the operator requests.
const (
	adminReadTimeout    = 10 * time.Second
	adminWriteTimeout   = 5 * time.Minute
	adminIdleTimeout    = 2 * time.Minute
	adminMaxHeaderBytes = 20 << 10
	adminMaxConnections = 256     // enough for probes, scrapes and operators
	adminMaxInput       = 1 << 20 // bytes of incomplete headers and handshakes on all connections; handshakes contain client certificates
)

// listen binds both listeners. It adds their Close functions to opened.
func listen(ctx context.Context, c common, opened *closers) (public, adminServer *httpserver.Server, err error) {
	if public, err = listenPublic(ctx, c); err != nil {
		return nil, nil, err
	}
	opened.add(public.Close)
	if adminServer, err = listenAdmin(ctx, c); err != nil {
		return nil, nil, err
	}
	opened.add(adminServer.Close)
	return public, adminServer, nil
}

func listenPublic(ctx context.Context, c common) (*httpserver.Server, error) {
	tlsConfig, err := publicTLS(c.Loaded.TLS, c.logs.dependencies)
	if err != nil {
		return nil, err
	}
	return httpserver.Listen(ctx, httpserver.Options{
		Name: "public", Address: c.Loaded.Listen, Bound: c.Listener, TLS: tlsConfig,
		Limits: httpserver.Limits{
			Connections:   c.Loaded.MaxConnections(),
			Input:         sizing.MaxInput(c.Loaded.MemoryLimit),
			HeaderTimeout: time.Duration(c.Loaded.HTTP.ReadHeaderTimeout),
			WriteTimeout:  time.Duration(c.Loaded.HTTP.WriteTimeout),
			IdleTimeout:   time.Duration(c.Loaded.HTTP.IdleTimeout),
			HeaderBytes:   2 * int(c.Loaded.HTTP.MaxHeaderBytes), // twice, so that most headers that are too large get the gateway's own 431
		},
		Errors: c.logs.connections.Handler(c.Logger.Handler()), Registerer: c.registry, MetricPrefix: "opsgate_http",
	})
}

func listenAdmin(ctx context.Context, c common) (*httpserver.Server, error) {
	tlsConfig, err := adminTLS(c.Loaded.Admin.TLS, c.logs.dependencies)
	if err != nil {
		return nil, err
	}
	return httpserver.Listen(ctx, httpserver.Options{
		Name: "admin", Address: c.Loaded.Admin.Listen, TLS: tlsConfig,
		Limits: httpserver.Limits{
			Connections:   adminMaxConnections,
			Input:         adminMaxInput,
			HeaderTimeout: adminReadTimeout,
			BodyTimeout:   adminReadTimeout,
			WriteTimeout:  adminWriteTimeout,
			IdleTimeout:   adminIdleTimeout,
			HeaderBytes:   adminMaxHeaderBytes,
		},
		Errors: c.logs.adminErrors.Handler(c.Logger.Handler()), Registerer: c.registry, MetricPrefix: "opsgate_admin",
	})
}

// publicTLS returns the TLS configuration of the public listener, or nil for plain HTTP.
func publicTLS(c config.TLS, logger *slog.Logger) (*tls.Config, error) {
	if c.CertFile == "" {
		return nil, nil
	}
	return certs.New(certs.Options{
		Listener: "public", Files: certs.Files{Certificate: string(c.CertFile), Key: string(c.KeyFile)},
		Protocols: []string{"h2", "http/1.1"}, Logger: logger,
	})
}

// adminTLS returns the TLS configuration of the admin listener, or nil for plain HTTP. It offers no HTTP/2.
func adminTLS(c config.AdminTLS, logger *slog.Logger) (*tls.Config, error) {
	if c.CertFile == "" {
		return nil, nil
	}
	return certs.New(certs.Options{
		Listener: "admin",
		Files:    certs.Files{Certificate: string(c.CertFile), Key: string(c.KeyFile), ClientCA: string(c.ClientCAFile)},
		Logger:   logger,
	})
}
