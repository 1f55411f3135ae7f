package admin

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// TLSFiles are PEM files. ClientCA may be "": then nobody is asked for a certificate.
type TLSFiles struct {
	Certificate, Key, ClientCA string
}

// NewTLS returns the TLS configuration of a listener with the files. They are read now, and again for a connection that comes after
// they have changed: certificates are renewed while gateways run. What cannot be read later is logged, and what was read before
// goes on being used.
//
// A client that shows no certificate gets a connection, so that probes do; [Access] says what it may ask. One that shows a certificate
// which is not of ClientCA gets none.
func NewTLS(files TLSFiles, logger *slog.Logger) (*tls.Config, error) {
	k := &keeper{files: files, logger: logger}
	k.changed = k.times()
	config, err := files.read()
	if err != nil {
		return nil, err
	}
	k.config = config
	current := config.Clone()
	current.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.current(), nil }
	return current, nil
}

// read makes a configuration of the files.
func (f TLSFiles) read() (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		return nil, fmt.Errorf("read the admin listener's certificate: %w", err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"},
		SessionTicketsDisabled: true, // a session must not outlive the roots that it was verified by
	}
	if f.ClientCA == "" {
		return config, nil
	}
	roots, err := os.ReadFile(f.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("read the roots of operators' certificates: %w", err)
	}
	config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(roots) {
		return nil, errors.New("read the roots of operators' certificates: there is none in the file")
	}
	return config, nil
}

// A keeper has what the files said when they were last good.
type keeper struct {
	files  TLSFiles
	logger *slog.Logger

	mu      sync.Mutex
	changed [3]time.Time
	config  *tls.Config
}

// current returns what the files say now.
func (k *keeper) current() *tls.Config {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed := k.times()
	if changed == k.changed {
		return k.config
	}
	k.changed = changed
	config, err := k.files.read()
	if err != nil {
		k.logger.Warn("changed TLS files of the admin listener are not used", slog.Any("error", err))
		return k.config
	}
	k.logger.Info("the admin listener uses changed TLS files")
	k.config = config
	return config
}

// times returns when each file last changed; zero for one that is not there.
func (k *keeper) times() (times [3]time.Time) {
	for i, path := range []string{k.files.Certificate, k.files.Key, k.files.ClientCA} {
		if info, err := os.Stat(path); err == nil {
			times[i] = info.ModTime()
		}
	}
	return times
}
