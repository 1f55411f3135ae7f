package wiring

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/kit/certs"
)

// Limits of HTTP/2 connections that HTTP/1.1 does not have.
const (
	// maxReadFrame is the smallest value that HTTP/2 allows, because the server buffers whole frames.
	maxReadFrame = 16 << 10
	// Flow control windows. They admit a body of the default maximum in two round trips; each connection can fill its window.
	streamWindow     = 64 << 10
	connectionWindow = 128 << 10
	headerTableSize  = 4 << 10
	// maxStreams bounds what a burst holds before handlers run: with 100, streams of 600 connections whose window is 0 held 370 MB.
	maxStreams = 20
	// pingAfter is the idle time after which the server sends a PING. A client cannot answer while it sends a header, and then PingTimeout
	// closes the connection: this limits the time for a header.
	pingAfter = 15 * time.Second
)

// http2 returns the limits of HTTP/2 connections.
func (l connectionLimits) http2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		MaxReadFrameSize:              maxReadFrame,
		MaxReceiveBufferPerStream:     streamWindow,
		MaxReceiveBufferPerConnection: connectionWindow,
		MaxDecoderHeaderTableSize:     headerTableSize,
		MaxEncoderHeaderTableSize:     headerTableSize,
		SendPingTimeout:               pingAfter,
		PingTimeout:                   l.readHeaderTimeout,
		WriteByteTimeout:              l.writeTimeout,
	}
}

// newPublicTLS returns the TLS configuration of the public listener, or nil for plain HTTP.
func newPublicTLS(c config.TLS, logger *slog.Logger, registry prometheus.Registerer) (*tls.Config, error) {
	if c.CertFile == "" {
		return nil, nil
	}
	return certs.New(certs.Options{
		Listener: "public", Files: certs.Files{Certificate: string(c.CertFile), Key: string(c.KeyFile)},
		Protocols: []string{"h2", "http/1.1"}, Logger: logger, Registerer: registry,
	})
}

// newAdminTLS returns the TLS configuration of the admin listener, or nil for plain HTTP. It offers no HTTP/2.
func newAdminTLS(c config.AdminTLS, logger *slog.Logger, registry prometheus.Registerer) (*tls.Config, error) {
	if c.CertFile == "" {
		return nil, nil
	}
	return certs.New(certs.Options{
		Listener: "admin",
		Files:    certs.Files{Certificate: string(c.CertFile), Key: string(c.KeyFile), ClientCA: string(c.ClientCAFile)},
		Logger:   logger, Registerer: registry,
	})
}
