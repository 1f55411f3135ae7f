package wiring

import (
	"context"
	"crypto/tls"
	"time"

	"opsgate/cmd/internal/gate/httpserver"
	"opsgate/internal/certs"
)

// Limits of the admin listener. A response may take long there: a profile lasts as long as the
// operator requests.
const (
	adminReadTimeout    = 10 * time.Second
	adminWriteTimeout   = 5 * time.Minute
	adminIdleTimeout    = 2 * time.Minute
	adminMaxHeaderBytes = 20 << 10
	adminMaxConnections = 256 // enough for probes, scrapes and operators
	// bytes of incomplete headers and handshakes on all connections; handshakes contain client
	// certificates
	adminMaxInput = 1 << 20
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
	files := c.Loaded.TLS
	tlsConfig, err := listenerTLS(c, "public",
		certs.Files{Certificate: string(files.CertFile), Key: string(files.KeyFile)}, "h2", "http/1.1")
	if err != nil {
		return nil, err
	}
	return httpserver.Listen(ctx, httpserver.Options{
		Name: "public", Address: c.Loaded.Listen, Bound: c.Listener, TLS: tlsConfig,
		ProxiedFrom: prefixes(c.Loaded.HTTP.ProxyProtocol.From),
		Limits: httpserver.Limits{
			Connections:   c.Loaded.MaxConnections(),
			Input:         c.Loaded.MaxInput(),
			HeaderTimeout: time.Duration(c.Loaded.HTTP.ReadHeaderTimeout),
			WriteTimeout:  time.Duration(c.Loaded.HTTP.WriteTimeout),
			IdleTimeout:   time.Duration(c.Loaded.HTTP.IdleTimeout),
			// twice, so that most headers that are too large get the gateway's own 431
			HeaderBytes: 2 * int(c.Loaded.HTTP.MaxHeaderBytes),
		},
		Errors: c.logs.connections.Handler(c.Logger.Handler()), Registerer: c.registry, MetricPrefix: "opsgate_http",
	})
}

func listenAdmin(ctx context.Context, c common) (*httpserver.Server, error) {
	files := c.Loaded.Admin.TLS
	tlsConfig, err := listenerTLS(c, "admin", certs.Files{
		Certificate: string(files.CertFile), Key: string(files.KeyFile), ClientCA: string(files.ClientCAFile),
	})
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

// listenerTLS returns the TLS configuration of a listener, or nil for plain HTTP. Without protocols
// it offers only HTTP/1.1.
func listenerTLS(c common, name string, files certs.Files, protocols ...string) (*tls.Config, error) {
	if files.Certificate == "" {
		return nil, nil
	}
	return certs.New(certs.Options{Listener: name, Files: files, Protocols: protocols, Logger: c.logs.dependencies})
}
