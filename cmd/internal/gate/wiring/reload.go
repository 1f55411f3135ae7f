package wiring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
)

// A missing file is retried, because it may be in the middle of a replacement.
const (
	missingTimeout = time.Second
	missingRetry   = 50 * time.Millisecond
)

var errNoReload = errors.New("this gateway cannot read its configuration again")

// A reloader applies changed configurations, each as a whole or not at all.
type reloader struct {
	load    func() (config.Loaded, error) // nil if reloads are disabled
	signals <-chan os.Signal
	logger  *slog.Logger
	clock   func() time.Time

	lifecycle Lifecycle // receives the requested reloads
	requests  *requests // builds snapshots
	active    *active
	settings  *settings
	metrics   *configMetrics

	mu      sync.Mutex  // held during a change of the configuration
	files   fingerprint // of the configuration files, taken just before the last read; zero before the first read
	lastErr string      // of the last reload; "" if it succeeded
	triedAt time.Time
}

func newReloader(c common, r *requests, a *active, s *settings) (*reloader, error) {
	metrics, err := newConfigMetrics(c.registry)
	if err != nil {
		return nil, err
	}
	first := a.current.Load()
	metrics.setActive(first.version, first.since)
	return &reloader{
		load: c.Load, signals: c.ReloadSignals, logger: c.logs.reloads, clock: c.Clock, lifecycle: c.Lifecycle,
		requests: r, active: a, settings: s, metrics: metrics,
	}, nil
}

// A trigger is the reason of a reload.
type trigger struct {
	why       string
	automatic bool // no operator requested the reload: it is logged only if something has changed
	retry     bool // no file has changed since the last reload: a refusal with the same error is not reported again
}

// reload reads the configuration and applies it. A request in flight ends under the configuration that it started with. If the
// configuration is invalid, or changes a key that needs a restart, nothing changes; the error, which is also logged, lists all problems.
func (r *reloader) reload(ctx context.Context, t trigger) error {
	if r.load == nil {
		return errNoReload
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !t.automatic {
		r.lifecycle.Reloading()
		defer r.lifecycle.Serving()
	}
	active := r.active.current.Load()
	r.triedAt = r.clock()
	next, upstreams, err := r.prepare(ctx, active)
	if err != nil {
		r.reportRefused(t, err)
		return fmt.Errorf("reload the configuration: %w", err)
	}
	if !slices.Equal(next.files, active.files) {
		r.files = fingerprint{} // the fingerprint of the new files is not known
	}
	r.apply(active, next)
	upstreams.Apply()
	r.reportApplied(t, active, next)
	return nil
}

// prepare reads the configuration, and builds its snapshot and the connections to changed upstreams.
func (r *reloader) prepare(ctx context.Context, active *snapshot) (*snapshot, *backendclient.Change, error) {
	loaded, err := r.read(ctx, active.files)
	if err != nil {
		return nil, nil, err
	}
	if problems := config.RestartProblems(active.loaded, loaded); len(problems) > 0 {
		return nil, nil, problems
	}
	next, err := r.requests.snapshot(loaded, r.clock(), active)
	if err != nil {
		return nil, nil, err
	}
	change, err := r.settings.clients.Prepare(upstreams(loaded.Upstreams)) // last, so that no other step has to discard it
	if err != nil {
		return nil, nil, upstreamProblems(loaded, err)
	}
	return next, change, nil
}

// upstreamProblems returns the problem of an upstream that cannot be changed.
func upstreamProblems(loaded config.Loaded, err error) config.Problems {
	key, text := "upstreams", err.Error()
	if refused, ok := errors.AsType[*backendclient.ChangeError](err); ok {
		key, text = key+"."+refused.Service+".address", refused.Err.Error()
	}
	return config.Problems{loaded.Problem(key, text)}
}

// read reads the configuration from the files. It retries for missingTimeout if a file is missing.
func (r *reloader) read(ctx context.Context, files []string) (config.Loaded, error) {
	ctx, cancel := context.WithTimeout(ctx, missingTimeout)
	defer cancel()
	for {
		r.files = fingerprintOf(files)
		loaded, err := r.load()
		if !errors.Is(err, fs.ErrNotExist) || !pause(ctx, missingRetry) {
			return loaded, err
		}
	}
}

// pause waits, and returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// apply makes a snapshot active and applies the settings of the process. It cannot fail. The caller holds r.mu.
func (r *reloader) apply(active, next *snapshot) {
	r.active.current.Store(next)
	r.settings.apply(next.loaded)
	for _, a := range expired(active.policies, next.policies, r.clock()) {
		r.logger.Info("limits expired", slog.String("key", a.Key), slog.String("origin", a.Origin),
			slog.Time("expires", a.Expires), slog.String("owner", a.Owner), slog.String("reason", a.Reason))
	}
}

// reportApplied logs and counts a successful reload. The caller holds r.mu.
func (r *reloader) reportApplied(t trigger, before, after *snapshot) {
	recovered := r.lastErr != ""
	r.lastErr = ""
	r.metrics.setActive(after.version, r.clock())
	switch {
	case after.version != before.version:
		r.logger.Info("configuration reloaded", slog.String("why", t.why),
			slog.String("config_version_before", before.version), slog.String("config_version", after.version),
			slog.Any("changed", config.Changes(before.loaded, after.loaded)))
		r.warn(after.loaded.Warnings)
		r.record(t, admin.ReloadApplied, nil)
	case recovered || !t.automatic:
		r.logger.Info("configuration unchanged", slog.String("why", t.why), slog.String("config_version", after.version))
		r.record(t, admin.ReloadUnchanged, nil)
	}
}

func (r *reloader) warn(warnings config.Problems) {
	for _, warning := range warnings {
		r.logger.Warn("configuration", slog.String("warning", warning.Error()))
	}
}

// reportRefused logs and counts a reload that failed. A retry with the same error as the last reload is not reported again. The caller
// holds r.mu.
func (r *reloader) reportRefused(t trigger, err error) {
	if t.retry && err.Error() == r.lastErr {
		return
	}
	r.lastErr = err.Error()
	r.metrics.successful.Set(0)
	version := r.active.current.Load().version
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		problems = config.Problems{{Text: err.Error()}}
	}
	var refused config.Problems
	for _, p := range problems {
		if p.Warning {
			p.Warning = false // the log attribute already has this word
			r.warn(config.Problems{p})
			continue
		}
		refused = append(refused, p)
		r.logger.Warn("configuration refused", append(position(p), slog.String("problem", p.Text),
			slog.String("why", t.why), slog.String("config_version", version))...)
	}
	r.record(t, admin.ReloadRefused, refused)
}

// position returns the log attributes of a problem's position: file and line or another source, and the key.
func position(p config.Problem) (attributes []any) {
	switch {
	case p.Line > 0:
		file := strings.TrimSuffix(p.Where, fmt.Sprintf(":%d", p.Line))
		attributes = append(attributes, slog.String("file", file), slog.Int("line", p.Line))
	case p.Where != "":
		attributes = append(attributes, slog.String("from", p.Where))
	}
	if p.Key != "" {
		attributes = append(attributes, slog.String("key", p.Key))
	}
	return attributes
}

// record counts a reload and stores it for the admin listener.
func (r *reloader) record(t trigger, outcome string, refused config.Problems) {
	reload := admin.Reload{At: r.clock(), Why: t.why, Outcome: outcome}
	var keys []string // of the schema
	for _, p := range refused {
		reload.Problems = append(reload.Problems, p.Error())
		if p.Key != "" && !slices.Contains(reload.Keys, p.Key) {
			reload.Keys = append(reload.Keys, p.Key)
		}
		if key := p.SchemaKey(); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	r.metrics.count.WithLabelValues(outcome).Inc()
	r.metrics.setRefused(keys)
	r.active.lastReload.Store(&reload)
}
