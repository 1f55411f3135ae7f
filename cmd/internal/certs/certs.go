package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient/tlsfiles"
)

// Files are PEM files. An empty ClientCA means that the listener requests no client certificates.
type Files struct {
	Certificate, Key, ClientCA string
}

// Options of the TLS of a listener. Listener and Files are required.
type Options struct {
	Listener  string // its name in log lines, errors and the metric: public, admin
	Files     Files
	Protocols []string // ALPN protocols in order of preference; HTTP/1.1 by default
	Logger    *slog.Logger
	// Registerer gets the metric; nil for none.
	Registerer prometheus.Registerer
	Clock      func() time.Time // nil for time.Now
}

// retryAfter is the time after which unchanged files that could not be read are read again: a change of permissions, or a shortage of file
// descriptors that ended, does not change what os.Stat returns.
const retryAfter = 10 * time.Second

// New returns the TLS configuration of a listener. It reads the files, and reads them again at the first handshake after a change. It fails if
// the files are invalid or the metric of that listener is already registered.
//
// With a ClientCA, a client without a certificate still gets a connection, as probes need; the handler must authorize its requests. A client
// with a certificate that ClientCA did not issue gets none.
func New(o Options) (*tls.Config, error) {
	if o.Protocols == nil {
		o.Protocols = []string{"http/1.1"}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	r := &reloader{Options: o}
	r.seen = o.Files.stat()
	config, err := r.read()
	if err != nil {
		return nil, err
	}
	r.config = config
	if err := r.register(); err != nil {
		return nil, err
	}
	current := config.Clone()
	current.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.current(), nil }
	return current, nil
}

// A reloader has the configuration of the last valid files.
type reloader struct {
	Options

	mu     sync.Mutex
	seen   fileInfos // of the files when they were last read
	failed error     // of that read; nil if it succeeded
	readAt time.Time
	config *tls.Config
}

// current returns the configuration of the files as they are now, or of the last valid ones.
func (r *reloader) current() *tls.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, now := r.Files.stat(), r.Clock()
	changed := !seen.same(r.seen)
	if !changed && (r.failed == nil || now.Sub(r.readAt) < retryAfter) {
		return r.config
	}
	before := r.failed
	r.seen, r.readAt = seen, now // taken before the read: a change during the read is detected by the next call
	config, err := r.read()
	r.failed = err
	if err != nil {
		if changed || err.Error() != before.Error() {
			r.Logger.Warn("changed TLS files are not used", slog.String("listener", r.Listener), slog.Any("error", err))
		}
		return r.config
	}
	r.Logger.Info("changed TLS files are in use", slog.String("listener", r.Listener), slog.Time("expires", expiry(config)))
	r.config = config
	return config
}

// read returns the configuration of the files.
func (r *reloader) read() (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(r.Files.Certificate, r.Files.Key)
	if err != nil {
		return nil, fmt.Errorf("read the %s listener's certificate: %w", r.Listener, err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, CipherSuites: tlsfiles.CipherSuites(),
		Certificates: []tls.Certificate{certificate}, NextProtos: r.Protocols,
	}
	if r.Files.ClientCA == "" {
		return config, nil
	}
	roots, err := os.ReadFile(r.Files.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("read the roots of the %s listener's clients: %w", r.Listener, err)
	}
	config.SessionTicketsDisabled = true // a resumed session would skip the verification by the current roots
	config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(roots) {
		return nil, fmt.Errorf("read the roots of the %s listener's clients: %w", r.Listener, errNoRoots)
	}
	return config, nil
}

var errNoRoots = errors.New("there is none in the file")

// register registers the metric of the expiry. Collecting it checks the files for changes, so that it is right for a listener without
// handshakes too.
func (r *reloader) register() error {
	if r.Registerer == nil {
		return nil
	}
	err := r.Registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "opsgate_tls_certificate_expiry_timestamp_seconds",
		Help:        "When the certificate that a listener uses expires.",
		ConstLabels: prometheus.Labels{"listener": r.Listener},
	}, func() float64 { return float64(expiry(r.current()).Unix()) }))
	if err != nil {
		return fmt.Errorf("register the metric of the %s listener's certificate: %w", r.Listener, err)
	}
	return nil
}

// expiry returns the earliest expiry in the certificate chain: the chain is invalid from then on.
func expiry(config *tls.Config) (first time.Time) {
	for _, der := range config.Certificates[0].Certificate {
		certificate, err := x509.ParseCertificate(der)
		if err == nil && (first.IsZero() || certificate.NotAfter.Before(first)) {
			first = certificate.NotAfter
		}
	}
	return first
}

// fileInfos has the os.FileInfo of each file; nil for a missing one.
type fileInfos [3]os.FileInfo

func (f Files) stat() (l fileInfos) {
	for i, path := range []string{f.Certificate, f.Key, f.ClientCA} {
		if info, err := os.Stat(path); err == nil {
			l[i] = info
		}
	}
	return l
}

// same returns whether the files are unchanged. Tools that renew certificates replace files, so a change within the resolution of the
// modification time is still another file.
func (l fileInfos) same(other fileInfos) bool {
	for i, a := range l {
		b := other[i]
		if a == nil || b == nil {
			if (a == nil) != (b == nil) {
				return false
			}
			continue
		}
		if !os.SameFile(a, b) || a.Size() != b.Size() || !a.ModTime().Equal(b.ModTime()) {
			return false
		}
	}
	return true
}
