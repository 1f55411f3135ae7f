package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"

	"opsgate/internal/filereader"
)

// Files are the PEM files of a listener. Without ClientCA, clients are not asked for a certificate.
type Files struct {
	Certificate, Key, ClientCA string
}

// Options are the options of [New]. Listener, Files and Logger are required.
type Options struct {
	Listener  string // the name in log lines and errors: public, admin
	Files     Files
	Protocols []string // for ALPN, in order of preference; HTTP/1.1 by default
	// RequireClient makes the handshake fail for a client without a certificate of ClientCA.
	RequireClient bool
	Logger        *slog.Logger
}

// New returns the TLS configuration of a listener. It reads the files, and again before each
// handshake. It returns an error if they cannot be used.
//
// With a ClientCA, the handshake fails for a client with a certificate that ClientCA did not issue.
// A client without a certificate can connect, for probes, unless RequireClient is set;
// authorization is left to the HTTP handler.
func New(o Options) (*tls.Config, error) {
	if o.Protocols == nil {
		o.Protocols = []string{"http/1.1"}
	}
	paths := Paths{Roots: o.Files.ClientCA, Certificate: o.Files.Certificate, Key: o.Files.Key}
	reloader, err := NewReloader(paths, o.config, o.Logger.With(slog.String("listener", o.Listener)))
	if err != nil {
		return nil, fmt.Errorf("TLS of the %s listener: %w", o.Listener, err)
	}
	config := reloader.Config(context.Background()).Clone()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config,
		error) {
		return reloader.Config(hello.Context()), nil
	}
	return config, nil
}

// config makes a configuration of the files.
func (o Options) config(contents PEM) (*tls.Config, error) {
	certificate, err := tls.X509KeyPair([]byte(contents.Certificate), []byte(contents.Key))
	if err != nil {
		return nil, fmt.Errorf("read the certificate in %s with its key in %s: %w", o.Files.Certificate, o.Files.Key, err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, CipherSuites: CipherSuites(),
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

// IsOwn returns a tls.Config.VerifyConnection that requires the server to have exactly the
// certificate of the file, without a check of its name and roots. A command connects to a listener
// of its own machine at an address like 127.0.0.1, which few certificates name.
func IsOwn(certificate string) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		content, err := new(filereader.Reader).Read(certificate)
		if err != nil {
			return fmt.Errorf("read the listener's certificate: %w", err)
		}
		if len(state.PeerCertificates) == 0 {
			return errors.New("the server has no certificate")
		}
		own, _ := pem.Decode(content)
		if own == nil || !bytes.Equal(own.Bytes, state.PeerCertificates[0].Raw) {
			return fmt.Errorf("the server does not have the certificate of %s", certificate)
		}
		return nil
	}
}
