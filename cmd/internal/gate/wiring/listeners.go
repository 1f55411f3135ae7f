package wiring

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	adminMaxInput       = 1 << 20 // including the chains of client certificates
)

func listenPublic(ctx context.Context, o Options, logs *logLimits, registry prometheus.Registerer) (*httpserver.Server, error) {
	tlsConfig, err := publicTLS(o.Loaded.TLS, logs.dependencies, registry)
	if err != nil {
		return nil, err
	}
	c := o.Loaded.HTTP
	return httpserver.Listen(ctx, httpserver.Options{
		Name: "public", Address: o.Loaded.Listen, Bound: o.Listener, TLS: tlsConfig,
		Limits: httpserver.Limits{
			Connections:   o.Loaded.MaxConnections(),
			Input:         sizing.MaxInput(o.Loaded.MemoryLimit),
			HeaderTimeout: time.Duration(c.ReadHeaderTimeout),
			WriteTimeout:  time.Duration(c.WriteTimeout),
			IdleTimeout:   time.Duration(c.IdleTimeout),
			HeaderBytes:   2 * int(c.MaxHeaderBytes), // more than configured, so that the gateway itself answers 431 to most larger headers
		},
		Errors: logs.connections.Handler(o.Logger.Handler()), Registerer: registry, MetricPrefix: "opsgate_http",
	})
}

func listenAdmin(ctx context.Context, o Options, logs *logLimits, registry prometheus.Registerer) (*httpserver.Server, error) {
	tlsConfig, err := adminTLS(o.Loaded.Admin.TLS, logs.dependencies, registry)
	if err != nil {
		return nil, err
	}
	return httpserver.Listen(ctx, httpserver.Options{
		Name: "admin", Address: o.Loaded.Admin.Listen, TLS: tlsConfig,
		Limits: httpserver.Limits{
			Connections:   adminMaxConnections,
			Input:         adminMaxInput,
			HeaderTimeout: adminReadTimeout,
			BodyTimeout:   adminReadTimeout,
			WriteTimeout:  adminWriteTimeout,
			IdleTimeout:   adminIdleTimeout,
			HeaderBytes:   adminMaxHeaderBytes,
		},
		Errors: logs.adminErrors.Handler(o.Logger.Handler()), Registerer: registry, MetricPrefix: "opsgate_admin",
	})
}

// publicTLS returns the TLS configuration of the public listener, or nil for plain HTTP.
func publicTLS(c config.TLS, logger *slog.Logger, registry prometheus.Registerer) (*tls.Config, error) {
	if c.CertFile == "" {
		return nil, nil
	}
	return certs.New(certs.Options{
		Listener: "public", Files: certs.Files{Certificate: string(c.CertFile), Key: string(c.KeyFile)},
		Protocols: []string{"h2", "http/1.1"}, Logger: logger, Registerer: registry,
	})
}

// adminTLS returns the TLS configuration of the admin listener, or nil for plain HTTP. It offers no HTTP/2.
func adminTLS(c config.AdminTLS, logger *slog.Logger, registry prometheus.Registerer) (*tls.Config, error) {
	if c.CertFile == "" {
		return nil, nil
	}
	return certs.New(certs.Options{
		Listener: "admin",
		Files:    certs.Files{Certificate: string(c.CertFile), Key: string(c.KeyFile), ClientCA: string(c.ClientCAFile)},
		Logger:   logger, Registerer: registry,
	})
}
