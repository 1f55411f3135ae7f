package edge

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

	"opsgate/cmd/internal/admin"
	"opsgate/cmd/internal/config"
)

// A file that is replaced may be missing for a moment, between the steps of whoever replaces it.
const (
	missingFor = time.Second
	lookAgain  = 50 * time.Millisecond
)

var errNoReload = errors.New("this gateway was started without a way to read its configuration again")

// A reloader takes over changed configurations, each as a whole or not at all.
type reloader struct {
	load    func() (config.Loaded, error) // nil where the configuration cannot be read again
	hangUps <-chan os.Signal
	parts   *parts
	level   *slog.LevelVar
	logger  *slog.Logger
	clock   func() time.Time

	lifecycle Lifecycle // told of reloads that were asked for

	mu      sync.Mutex  // held by whoever changes the configuration
	seen    fingerprint // of the files, before they were last read; zero when nobody has looked yet
	refused string      // why the last reload was; "" when it was not
	triedAt time.Time
}

// A trigger is what a reload is made for.
type trigger struct {
	why string
	// unasked is a reload that no person asked for. It says nothing where nothing is new.
	unasked bool
}

// Reload reads the configuration and takes it over. Requests in flight end under the one that they began with. Where what is read
// is wrong, or changes what cannot change while running, nothing changes at all; then the error, which is logged as well, has
// every problem. Why is for the log.
func (e *Edge) Reload(ctx context.Context, why string) error {
	return e.reloader.reload(ctx, trigger{why: why})
}

func (r *reloader) reload(ctx context.Context, t trigger) error {
	if r.load == nil {
		return errNoReload
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !t.unasked {
		r.lifecycle.Reloading()
		defer r.lifecycle.Serving()
	}
	running := r.parts.current.Load()
	r.seen, r.triedAt = fingerprintOf(running.files), r.clock()
	next, err := r.next(ctx, running)
	if err != nil {
		r.refuse(t, err)
		return fmt.Errorf("reload the configuration: %w", err)
	}
	if !slices.Equal(next.files, running.files) {
		r.seen = fingerprint{} // there are files that nobody has looked at
	}
	r.take(running, next)
	r.tell(t, running, next)
	return nil
}

// next makes a snapshot of what the configuration says now.
func (r *reloader) next(ctx context.Context, running *snapshot) (*snapshot, error) {
	loaded, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	if problems := config.Unchangeable(running.loaded, loaded); len(problems) > 0 {
		return nil, problems
	}
	return r.parts.snapshot(loaded, r.clock())
}

// read reads the configuration, and waits a while for a file that is not there.
func (r *reloader) read(ctx context.Context) (config.Loaded, error) {
	patience, cancel := context.WithTimeout(ctx, missingFor)
	defer cancel()
	for {
		loaded, err := r.load()
		if !errors.Is(err, fs.ErrNotExist) || !pause(patience, lookAgain) {
			return loaded, err
		}
	}
}

// pause waits, and returns false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// take puts a snapshot in force, and what no snapshot holds because it is of the process. Nothing here can fail. The caller holds
// r.mu.
func (r *reloader) take(running, next *snapshot) {
	r.parts.current.Store(next)
	r.parts.configureLimiter(next.loaded.RateLimit)
	r.parts.configureBounds(next.loaded.HTTP)
	if r.level != nil {
		r.level.Set(next.loaded.Log.Level.Slog())
	}
	for _, a := range ended(running.policies, next.policies, r.clock()) {
		r.logger.Info("limits ended: they have expired", slog.String("key", a.Key), slog.String("origin", a.Origin),
			slog.Time("expires", a.Expires), slog.String("owner", a.Owner), slog.String("reason", a.Reason))
	}
}

// tell reports that what was read is in force. The caller holds r.mu.
func (r *reloader) tell(t trigger, running, next *snapshot) {
	mended := r.refused != ""
	r.refused = ""
	r.parts.reloads.inForce(next.version, r.clock())
	switch {
	case next.version != running.version:
		r.logger.Info("configuration reloaded", slog.String("why", t.why),
			slog.String("version_before", running.version), slog.String("version", next.version),
			slog.Any("changed", config.Changes(running.loaded, next.loaded)))
		r.warn(next.loaded.Warnings)
		r.note(t, outcomeApplied, nil)
	case mended || !t.unasked:
		r.logger.Info("configuration unchanged", slog.String("why", t.why), slog.String("version", next.version))
		r.note(t, outcomeUnchanged, nil)
	}
}

func (r *reloader) warn(warnings config.Problems) {
	for _, warning := range warnings {
		r.logger.Warn("configuration", slog.String("warning", warning.Error()))
	}
}

// refuse reports why the configuration stays as it was. The caller holds r.mu.
func (r *reloader) refuse(t trigger, err error) {
	if t.unasked && err.Error() == r.refused {
		return // that was said already
	}
	r.refused = err.Error()
	r.parts.reloads.successful.Set(0)
	version := r.parts.current.Load().version
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		problems = config.Problems{{Text: err.Error()}}
	}
	var texts []string
	for _, p := range problems {
		if p.Warning {
			p.Warning = false // the line says so
			r.warn(config.Problems{p})
			continue
		}
		texts = append(texts, p.Error())
		r.logger.Warn("configuration refused", append(place(p), slog.String("problem", p.Text),
			slog.String("why", t.why), slog.String("version", version))...)
	}
	r.note(t, outcomeRefused, texts)
}

// place says where a problem is, as far as it is anywhere.
func place(p config.Problem) (attributes []any) {
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

// note counts a reload and remembers it for those who ask.
func (r *reloader) note(t trigger, outcome string, problems []string) {
	r.parts.reloads.count.WithLabelValues(outcome).Inc()
	r.parts.lastReload.Store(&admin.Reload{At: r.clock(), Why: t.why, Outcome: outcome, Problems: problems})
}
