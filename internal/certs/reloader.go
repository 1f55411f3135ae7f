package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"

	"opsgate/internal/filereader"
)

// Paths are the paths of PEM files; "" for no file.
type Paths struct {
	Roots, Certificate, Key string
}

// PEM holds the contents of the files of Paths; "" for no file.
type PEM struct {
	Roots, Certificate, Key string
}

// read reads the files.
func (p Paths) read(files *filereader.Reader) (contents PEM, err error) {
	for _, file := range []struct {
		path, name string
		content    *string
	}{
		{p.Roots, "the roots", &contents.Roots},
		{p.Certificate, "the certificate", &contents.Certificate},
		{p.Key, "the key", &contents.Key},
	} {
		if file.path == "" {
			continue
		}
		content, err := files.Read(file.path)
		if err != nil {
			return PEM{}, fmt.Errorf("read %s: %w", file.name, err)
		}
		*file.content = string(content)
	}
	return contents, nil
}

// A Reloader returns the TLS configuration of files. It is safe for concurrent use.
type Reloader struct {
	paths  Paths
	build  func(PEM) (*tls.Config, error)
	logger *slog.Logger
	files  filereader.Reader

	mu      sync.Mutex
	pem     PEM         // of config
	config  *tls.Config // the last valid one
	failure error       // of the last reading; nil if config is up to date
}

// NewReloader reads the files, and returns an error if they cannot be read or build fails. The
// logger should name the user of the files.
func NewReloader(paths Paths, build func(PEM) (*tls.Config, error), logger *slog.Logger) (*Reloader, error) {
	r := &Reloader{paths: paths, build: build, logger: logger}
	if err := r.reload(); err != nil {
		return nil, err
	}
	return r, nil
}

// Config returns the configuration for a new connection: of the current files, or else the last
// valid one. The configuration must not be modified. It is the same pointer until the files change.
func (r *Reloader) Config(ctx context.Context) *tls.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.config
	err := r.reload()
	switch {
	case err == nil && (r.failure != nil || r.config != before):
		r.logger.InfoContext(ctx, "the current TLS files are in use")
	case err != nil && (r.failure == nil || r.failure.Error() != err.Error()):
		r.logger.WarnContext(ctx, "the current TLS files are not used", slog.Any("error", err))
	}
	r.failure = err
	return r.config
}

// reload reads the files and replaces the configuration if they have changed. Unchanged files are
// not parsed again.
func (r *Reloader) reload() error {
	contents, err := r.paths.read(&r.files)
	if err != nil || (r.config != nil && contents == r.pem) {
		return err
	}
	config, err := r.build(contents)
	if err != nil {
		return err
	}
	r.pem, r.config = contents, config
	return nil
}
