package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"

	"opsgate/internal/filereader"
)

// ClientFiles are the PEM files of a TLS client, with the name of its server.
type ClientFiles struct {
	// CAFile has the roots of the server's certificate; "" for the system's roots.
	CAFile string
	// CertFile and KeyFile are the client certificate and its key; "" for none.
	CertFile, KeyFile string
	// ServerName is the name in the server's certificate; "" for the name of the address.
	ServerName string
}

// CipherSuites returns the allowed cipher suites of TLS 1.2: those with authenticated encryption
// and forward secrecy. Go's default also allows CBC, whose padding has been attacked repeatedly.
func CipherSuites() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}

// Config returns the configuration of the current files.
func (f ClientFiles) Config() (*tls.Config, error) {
	contents, err := f.paths().read(new(filereader.Reader))
	if err != nil {
		return nil, err
	}
	return f.build(contents)
}

// Reloader returns a Reloader of the files.
func (f ClientFiles) Reloader(logger *slog.Logger) (*Reloader, error) {
	return NewReloader(f.paths(), f.build, logger)
}

func (f ClientFiles) paths() Paths {
	return Paths{Roots: f.CAFile, Certificate: f.CertFile, Key: f.KeyFile}
}

func (f ClientFiles) build(contents PEM) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: CipherSuites(), ServerName: f.ServerName}
	if f.CAFile != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(contents.Roots)) {
			return nil, fmt.Errorf("read the roots: no certificate in %s", f.CAFile)
		}
	}
	if f.CertFile != "" {
		certificate, err := tls.X509KeyPair([]byte(contents.Certificate), []byte(contents.Key))
		if err != nil {
			return nil, fmt.Errorf("read the certificate in %s with its key in %s: %w", f.CertFile, f.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}
