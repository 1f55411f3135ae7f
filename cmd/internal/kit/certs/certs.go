package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient/tlsfiles"
)

// Files are the PEM files of a listener. Without ClientCA, clients are not asked for a certificate.
type Files struct {
	Certificate, Key, ClientCA string
}

// Options are the options of [New]. Listener and Files are required.
type Options struct {
	Listener  string // the name in log lines, errors and the metric: public, admin
	Files     Files
	Protocols []string // for ALPN, in order of preference; HTTP/1.1 by default
	// RequireClient makes the handshake fail for a client without a certificate of ClientCA.
	RequireClient bool
	Logger        *slog.Logger
	// Registerer registers the metric; nil for none.
	Registerer prometheus.Registerer
}

// New returns the TLS configuration of a listener. It reads the files, and again before each handshake. It returns an error if they
// cannot be used, or if the listener's metric is already registered.
//
// With a ClientCA, the handshake fails for a client with a certificate that ClientCA did not issue. A client without a certificate can
// connect, for probes, unless RequireClient is set; authorization is left to the HTTP handler.
func New(o Options) (*tls.Config, error) {
	if o.Protocols == nil {
		o.Protocols = []string{"http/1.1"}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	paths := tlsfiles.Paths{Roots: o.Files.ClientCA, Certificate: o.Files.Certificate, Key: o.Files.Key}
	reloader, err := tlsfiles.NewReloader(paths, o.config, o.Logger.With(slog.String("listener", o.Listener)))
	if err != nil {
		return nil, fmt.Errorf("TLS of the %s listener: %w", o.Listener, err)
	}
	if err := o.register(reloader); err != nil {
		return nil, err
	}
	config := reloader.Config(context.Background()).Clone()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) { return reloader.Config(hello.Context()), nil }
	return config, nil
}

// config makes a configuration of the files.
func (o Options) config(contents tlsfiles.PEM) (*tls.Config, error) {
	certificate, err := tls.X509KeyPair([]byte(contents.Certificate), []byte(contents.Key))
	if err != nil {
		return nil, fmt.Errorf("read the certificate in %s with its key in %s: %w", o.Files.Certificate, o.Files.Key, err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, CipherSuites: tlsfiles.CipherSuites(),
		Certificates: []tls.Certificate{certificate}, NextProtos: o.Protocols,
	}
	if o.Files.ClientCA == "" {
		return config, nil
	}
	config.SessionTicketsDisabled = true // a session must not outlive the roots that verified it
	config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
	if o.RequireClient {
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if !config.ClientCAs.AppendCertsFromPEM([]byte(contents.Roots)) {
		return nil, fmt.Errorf("read the roots: there is none in %s", o.Files.ClientCA)
	}
	return config, nil
}

// register registers the expiry of the certificate in use. A scrape reads the files, so that the metric of a listener without traffic is
// up to date.
func (o Options) register(reloader *tlsfiles.Reloader) error {
	if o.Registerer == nil {
		return nil
	}
	err := o.Registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "opsgate_tls_certificate_expiry_timestamp_seconds",
		Help:        "When the certificate that a listener uses expires.",
		ConstLabels: prometheus.Labels{"listener": o.Listener},
	}, func() float64 { return float64(tlsfiles.Expiry(reloader.Config(context.Background())).Unix()) }))
	if err != nil {
		return fmt.Errorf("register the metric of the %s listener's certificate: %w", o.Listener, err)
	}
	return nil
}
