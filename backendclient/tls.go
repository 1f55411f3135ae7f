package backendclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
)

// TLS is how the connections to a service are kept private. The files are PEM.
type TLS struct {
	// CAFile has the roots of the service's certificate; "" for those of the system.
	CAFile string
	// CertFile and KeyFile are the gateway's own certificate, for a service that asks for one; "" for none.
	CertFile, KeyFile string
	// ServerName is the name in the service's certificate; "" for that of the address.
	ServerName string
}

// read makes a configuration of what the files say now.
func (t TLS) read() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		roots, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the roots of the service's certificate: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(roots) {
			return nil, fmt.Errorf("read the roots of the service's certificate: there is none in %s", t.CAFile)
		}
	}
	if t.CertFile != "" {
		certificate, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificate for the service: %w", err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

// fileCredentials read the files for each connection that is made: certificates are renewed while gateways run, and connections
// are made too seldom to remember anything. What cannot be read, as it is just being replaced, is what it was before.
type fileCredentials struct {
	credentials.TransportCredentials // of the start, for what does not depend on the files' contents

	files  TLS
	logger *slog.Logger
	good   *atomic.Pointer[tls.Config] // what the files last said
}

func newFileCredentials(files TLS, logger *slog.Logger) (*fileCredentials, error) {
	config, err := files.read()
	if err != nil {
		return nil, err
	}
	c := &fileCredentials{
		TransportCredentials: credentials.NewTLS(config), files: files, logger: logger, good: new(atomic.Pointer[tls.Config]),
	}
	c.good.Store(config)
	return c, nil
}

// ClientHandshake implements [credentials.TransportCredentials].
func (c *fileCredentials) ClientHandshake(ctx context.Context, authority string, connection net.Conn) (
	net.Conn, credentials.AuthInfo, error,
) {
	config, err := c.files.read()
	if err != nil {
		c.logger.WarnContext(ctx, "TLS files that cannot be read are not used", slog.Any("error", err))
		config = c.good.Load()
	} else {
		c.good.Store(config)
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, connection)
}

// Clone implements [credentials.TransportCredentials].
func (c *fileCredentials) Clone() credentials.TransportCredentials {
	clone := *c
	return &clone
}
