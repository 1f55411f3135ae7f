package tlsfiles

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// Files are how connections to a server are kept private. They are PEM.
type Files struct {
	// CAFile has the roots of the server's certificate; "" for those of the system.
	CAFile string
	// CertFile and KeyFile are the client's certificate, for a server that asks for one; "" for none.
	CertFile, KeyFile string
	// ServerName is the name in the server's certificate; "" for that of the address.
	ServerName string
}

// CipherSuites returns the suites of TLS 1.2 that are used: those with authenticated encryption and forward secrecy. Go's own list
// still has suites with CBC, whose padding has been attacked again and again. Those of TLS 1.3 are all of this kind.
func CipherSuites() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}

// Read makes a configuration of what the files say now. It fails when they make no TLS.
func (f Files) Read() (*tls.Config, error) {
	said, err := f.contents()
	if err != nil {
		return nil, err
	}
	return f.config(said)
}

// contents are what files say; "" for one that has no name.
type contents struct {
	roots, certificate, key string
}

func (f Files) contents() (said contents, err error) {
	for _, file := range []struct {
		path, what string
		content    *string
	}{
		{f.CAFile, "the roots of the server's certificate", &said.roots},
		{f.CertFile, "the client's certificate", &said.certificate},
		{f.KeyFile, "the key of the client's certificate", &said.key},
	} {
		if file.path == "" {
			continue
		}
		content, err := os.ReadFile(file.path)
		if err != nil {
			return contents{}, fmt.Errorf("read %s: %w", file.what, err)
		}
		*file.content = string(content)
	}
	return said, nil
}

func (f Files) config(said contents) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: CipherSuites(), ServerName: f.ServerName}
	if f.CAFile != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(said.roots)) {
			return nil, fmt.Errorf("read the roots of the server's certificate: there is none in %s", f.CAFile)
		}
	}
	if f.CertFile != "" {
		certificate, err := tls.X509KeyPair([]byte(said.certificate), []byte(said.key))
		if err != nil {
			return nil, fmt.Errorf("read the client's certificate in %s with its key in %s: %w", f.CertFile, f.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

// A Reloader has what files said when they were last good. Any number of goroutines may use it.
type Reloader struct {
	files  Files
	logger *slog.Logger

	mu     sync.Mutex
	said   contents    // by the files when they were last good
	config *tls.Config // of that
	failed error       // why they are not good now; nil if they are
}

// NewReloader reads the files, and fails when they make no TLS. The logger, which says whose files they are, is told of changes.
func NewReloader(files Files, logger *slog.Logger) (*Reloader, error) {
	k := &Reloader{files: files, logger: logger}
	if err := k.read(); err != nil {
		return nil, err
	}
	return k, nil
}

// Config returns what a connection that is made now is to use: what the files say, or the last that was good. It must not be changed.
func (k *Reloader) Config(ctx context.Context) *tls.Config {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.config
	err := k.read()
	switch {
	case err == nil && (k.failed != nil || k.config != before):
		k.logger.InfoContext(ctx, "changed TLS files are in use")
	case err != nil && (k.failed == nil || k.failed.Error() != err.Error()):
		k.logger.WarnContext(ctx, "changed TLS files are not used", slog.Any("error", err))
	}
	k.failed = err
	return k.config
}

// read takes over what the files say, where that is good. Connections are made by the dozen when a server comes back, and what says
// the same as before is not parsed for each of them.
func (k *Reloader) read() error {
	said, err := k.files.contents()
	if err != nil || (k.config != nil && said == k.said) {
		return err
	}
	config, err := k.files.config(said)
	if err != nil {
		return err
	}
	k.said, k.config = said, config
	return nil
}
