package wiring

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/filereader"
	"opsgate/internal/pulse"
)

const (
	// pollEvery is the interval at which files are checked for changes. A changed file is read
	// again after settleFor.
	pollEvery = 500 * time.Millisecond
	settleFor = 50 * time.Millisecond
	// retryEvery is the interval at which a refused configuration is read again without a change of
	// its files: a file that was missing, for example of a secret, may exist by then.
	retryEvery = 5 * time.Second
)

// A reloader applies changed configurations, each as a whole or not at all.
type reloader struct {
	common

	logger  *slog.Logger // of reloads
	builder *builder
	active  *activeConfig
	parts   *reloadableParts
	metrics *configMetrics

	mu sync.Mutex // held during a change of the configuration
	// watcher has loaded nothing at the start, so that polling begins with a reload: a file may
	// have changed after the first read.
	watcher filereader.Watcher
	lastErr string // of the last reload; "" if it succeeded
	triedAt time.Time
}

func newReloader(c common, b *builder, a *activeConfig, p *reloadableParts) (*reloader, error) {
	metrics, err := newConfigMetrics(c.registry)
	if err != nil {
		return nil, err
	}
	first := a.snapshot.Load()
	metrics.setActive(first.version, first.since)
	return &reloader{
		common: c, logger: c.logs.reloads, builder: b, active: a, parts: p, metrics: metrics,
		watcher: filereader.Watcher{Reader: c.Loaded.Reader},
	}, nil
}

// run reloads the configuration on signals and when its files change, and removes expired limits,
// until ctx ends. It returns nil.
func (r *reloader) run(ctx context.Context) error {
	next := time.NewTimer(pulse.Until(pollEvery))
	defer next.Stop()
	for {
		select {
		case <-next.C:
			next.Reset(r.poll())
		case <-r.ReloadSignals:
			_ = r.reload(trigger{why: "SIGHUP"}) // a refusal is logged
		case <-ctx.Done():
			return nil
		}
	}
}

// poll removes expired limits, and reloads the configuration if its files have changed or a retry
// is due. It returns the time until the next poll.
func (r *reloader) poll() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire()
	changed, pending := r.watcher.Changed(r.active.snapshot.Load().files)
	switch {
	case pending:
		return settleFor
	case changed:
		_ = r.reloadLocked(trigger{why: "the files changed", automatic: true})
	case r.lastErr != "" && r.Clock().Sub(r.triedAt) >= retryEvery:
		_ = r.reloadLocked(trigger{why: "retry", automatic: true, reportOnce: true})
	}
	return pulse.Until(pollEvery)
}

// reload reads the configuration and applies it. A request in flight ends under the configuration
// that it started with. If the configuration is invalid, or changes a key that needs a restart,
// nothing changes; the error, which is also logged, lists its problems.
func (r *reloader) reload(t trigger) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reloadLocked(t)
}

// reloadLocked is reload for a caller that holds r.mu.
func (r *reloader) reloadLocked(t trigger) error {
	if !t.automatic {
		r.watcher.Forget()
		r.Notifier.Reloading()
		defer r.Notifier.Serving()
	}
	before := r.active.snapshot.Load()
	filesRead := r.watcher.Fingerprint(before.files)
	loaded, err := r.Load()
	if t.automatic && r.watcher.Fingerprint(before.files) != filesRead {
		return nil // the files are being written: a later poll reads them
	}
	// If the new configuration has other files than before, their fingerprint differs, and a poll
	// reloads once more, which changes nothing.
	r.watcher.Loaded, r.triedAt = filesRead, r.Clock()
	var next *snapshot
	var change *backendclient.Change
	if err == nil {
		next, change, err = r.prepare(before, loaded)
	}
	if err != nil {
		// New connections read the TLS files themselves, although the reload is refused: report the
		// certificates that they use now.
		r.active.setCertificates(before.loaded.RereadCertificates(*r.active.certificates.Load()))
		return r.reportRefused(t, err)
	}
	r.apply(before, next)
	r.active.setCertificates(next.loaded.Certificates)
	change.Apply()
	r.reportApplied(t, before, next)
	return nil
}

// prepare builds the snapshot of a configuration and the connections to changed upstreams.
func (r *reloader) prepare(before *snapshot, loaded config.Loaded) (*snapshot, *backendclient.Change, error) {
	if problems := config.RestartProblems(before.loaded, loaded); len(problems) > 0 {
		return nil, nil, problems
	}
	next, err := r.builder.snapshot(loaded, r.Clock(), before)
	if err != nil {
		return nil, nil, err
	}
	// This step is the last, so that no error of another step requires closing the connections.
	change, err := r.parts.dependencies.clients.Prepare(upstreams(loaded.Upstreams))
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

// apply makes a snapshot active and applies its settings to the parts of the process. It cannot
// fail. The caller holds r.mu.
func (r *reloader) apply(before, next *snapshot) {
	r.active.snapshot.Store(next)
	r.parts.apply(next.loaded)
	for _, a := range expired(before.policies, next.policies, r.Clock()) {
		r.logger.Info("limits expired", slog.String("key", a.Key), slog.String("origin", a.Origin),
			slog.Time("expires", a.Expires), slog.String("owner", a.Owner), slog.String("reason", a.Reason))
	}
}
