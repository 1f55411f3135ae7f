package edge

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/certs"
	"opsgate/cmd/internal/config"
)

// Bounds of an HTTP/2 connection beyond those that it has in common with others.
const (
	// One frame of a client's is held whole, so the least that the protocol allows is enough.
	maxReadFrame = 16 << 10
	// What clients may send before anybody reads it: enough for a body of the usual greatest size in two round trips, and not more,
	// as each connection can make us hold that.
	maxUnreadOfStream     = 64 << 10
	maxUnreadOfConnection = 128 << 10
	// Header fields that the two sides remember for each other.
	maxHeaderTable = 4 << 10
	maxStreams     = 100
	// A connection that says nothing for pingAfter is asked whether it is there. One that is in the middle of a header cannot answer,
	// so this is what bounds the time for a header.
	pingAfter = 15 * time.Second
)

// http2 returns the bounds of HTTP/2 connections.
func (l connectionLimits) http2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		MaxReadFrameSize:              maxReadFrame,
		MaxReceiveBufferPerStream:     maxUnreadOfStream,
		MaxReceiveBufferPerConnection: maxUnreadOfConnection,
		MaxDecoderHeaderTableSize:     maxHeaderTable,
		MaxEncoderHeaderTableSize:     maxHeaderTable,
		SendPingTimeout:               pingAfter,
		PingTimeout:                   l.readHeaderTimeout,
		WriteByteTimeout:              l.writeTimeout,
	}
}

// newPublicTLS returns the TLS configuration of the public listener, or nil where it has none.
func newPublicTLS(c config.TLS, logger *slog.Logger, registry prometheus.Registerer) (*tls.Config, error) {
	if c.CertFile == "" {
		return nil, nil
	}
	return certs.New(certs.Options{
		Listener: "public", Files: certs.Files{Certificate: string(c.CertFile), Key: string(c.KeyFile)},
		Protocols: []string{"h2", "http/1.1"}, Logger: logger, Registerer: registry,
	})
}

// newAdminTLS is newPublicTLS of the admin listener. Operators need no HTTP/2.
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
