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

// Files are PEM files. ClientCA may be "": then nobody is asked for a certificate.
type Files struct {
	Certificate, Key, ClientCA string
}

// Options are what the TLS of a listener is made of. Listener and Files are required.
type Options struct {
	Listener  string // what log lines, errors and the metric call it: public, admin
	Files     Files
	Protocols []string // that are spoken over it, the dearest first; none for HTTP/1.1
	Logger    *slog.Logger
	// Registerer gets the metric; nil for nobody.
	Registerer prometheus.Registerer
	Clock      func() time.Time // nil for time.Now
}

// readAgain is when files that could not be read are read again though they look the same: who may read them is not seen from
// outside, nor that there was no file descriptor left.
const readAgain = 10 * time.Second

// New returns the TLS configuration of a listener. The files are read now, and again for a handshake that comes after they have
// changed. It fails when they make no TLS, or when there is a metric of that listener already.
//
// A client that shows no certificate gets a connection even where there is a ClientCA, so that probes do: what it may ask is for
// others to say. One that shows a certificate which is not of ClientCA gets none.
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
	k := &keeper{Options: o}
	k.seen = o.Files.look()
	config, err := k.read()
	if err != nil {
		return nil, err
	}
	k.config = config
	if err := k.register(); err != nil {
		return nil, err
	}
	current := config.Clone()
	current.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.current(), nil }
	return current, nil
}

// A keeper has what the files said when they were last good.
type keeper struct {
	Options

	mu     sync.Mutex
	seen   looks // of the files when they were last read
	failed error // why that gave nothing; nil if it did
	readAt time.Time
	config *tls.Config
}

// current returns what the files say now.
func (k *keeper) current() *tls.Config {
	k.mu.Lock()
	defer k.mu.Unlock()
	seen, now := k.Files.look(), k.Clock()
	changed := !seen.same(k.seen)
	if !changed && (k.failed == nil || now.Sub(k.readAt) < readAgain) {
		return k.config
	}
	before := k.failed
	k.seen, k.readAt = seen, now // before they are read: what changes meanwhile is seen the next time
	config, err := k.read()
	k.failed = err
	if err != nil {
		if changed || err.Error() != before.Error() {
			k.Logger.Warn("changed TLS files are not used", slog.String("listener", k.Listener), slog.Any("error", err))
		}
		return k.config
	}
	k.Logger.Info("changed TLS files are in use", slog.String("listener", k.Listener), slog.Time("expires", expiry(config)))
	k.config = config
	return config
}

// read makes a configuration of the files.
func (k *keeper) read() (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(k.Files.Certificate, k.Files.Key)
	if err != nil {
		return nil, fmt.Errorf("read the %s listener's certificate: %w", k.Listener, err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, CipherSuites: tlsfiles.CipherSuites(),
		Certificates: []tls.Certificate{certificate}, NextProtos: k.Protocols,
	}
	if k.Files.ClientCA == "" {
		return config, nil
	}
	roots, err := os.ReadFile(k.Files.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("read the roots of the %s listener's clients: %w", k.Listener, err)
	}
	config.SessionTicketsDisabled = true // a session must not outlive the roots that it was verified by
	config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(roots) {
		return nil, fmt.Errorf("read the roots of the %s listener's clients: %w", k.Listener, errNoRoots)
	}
	return config, nil
}

var errNoRoots = errors.New("there is none in the file")

// register registers when the certificate in use will expire. Who asks has the files looked at, so a listener that nobody
// connects to does not tell of a certificate that is long renewed.
func (k *keeper) register() error {
	if k.Registerer == nil {
		return nil
	}
	err := k.Registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "opsgate_tls_certificate_expiry_timestamp_seconds",
		Help:        "When the certificate that a listener uses expires.",
		ConstLabels: prometheus.Labels{"listener": k.Listener},
	}, func() float64 { return float64(expiry(k.current()).Unix()) }))
	if err != nil {
		return fmt.Errorf("register the metric of the %s listener's certificate: %w", k.Listener, err)
	}
	return nil
}

// expiry returns when the first of the certificates that a configuration shows expires: any of them ends the connection to its root.
func expiry(config *tls.Config) (first time.Time) {
	for _, der := range config.Certificates[0].Certificate {
		certificate, err := x509.ParseCertificate(der)
		if err == nil && (first.IsZero() || certificate.NotAfter.Before(first)) {
			first = certificate.NotAfter
		}
	}
	return first
}

// Looks are how each of the files looks from outside; nil for one that is not there.
type looks [3]os.FileInfo

func (f Files) look() (l looks) {
	for i, path := range []string{f.Certificate, f.Key, f.ClientCA} {
		if info, err := os.Stat(path); err == nil {
			l[i] = info
		}
	}
	return l
}

// same tells whether the files are those that they were. Two that were written in the same moment differ in size or are not the
// same file, since tools that renew certificates replace them.
func (l looks) same(other looks) bool {
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
