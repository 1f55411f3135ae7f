package wiring

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
)

// A trigger is the reason of a reload.
type trigger struct {
	why        string
	automatic  bool // no operator requested the reload: it is logged only if something has changed
	reportOnce bool // no file has changed since the last reload: a refusal with the same error is not reported again
}

// reportApplied logs and counts a successful reload. The caller holds r.mu.
func (r *reloader) reportApplied(t trigger, before, after *snapshot) {
	recovered := r.lastErr != ""
	r.lastErr = ""
	r.metrics.setActive(after.version, r.Clock())
	changed := config.Changes(before.loaded, after.loaded)
	switch {
	case len(changed) > 0:
		r.logger.Info("configuration reloaded", slog.String("why", t.why),
			slog.String("config_version_before", before.version), slog.String("config_version", after.version),
			slog.Any("changed", changed))
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

// reportRefused logs and counts a refused reload, and returns its error. With trigger.reportOnce,
// it does not report an error that the last reload also had. The caller holds r.mu.
func (r *reloader) reportRefused(t trigger, err error) error {
	failure := fmt.Errorf("reload the configuration: %w", err)
	if t.reportOnce && err.Error() == r.lastErr {
		return failure
	}
	r.lastErr = err.Error()
	r.metrics.successful.Set(0)
	version := r.active.snapshot.Load().version
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		problems = config.Problems{{Text: err.Error()}}
	}
	var refused config.Problems
	for _, p := range problems {
		if p.Warning {
			p.Warning = false // else its text would begin with "warning: ", in an attribute with that name
			r.warn(config.Problems{p})
			continue
		}
		refused = append(refused, p)
		r.logger.Warn("configuration refused", append(position(p), slog.String("problem", p.Text),
			slog.String("why", t.why), slog.String("config_version", version))...)
	}
	r.record(t, admin.ReloadRefused, refused)
	return failure
}

// position returns the log attributes of a problem's position: file and line or another source, and
// the key.
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
	reload := admin.Reload{At: r.Clock(), Why: t.why, Outcome: outcome}
	var schemaKeys []string // labels of the metric, which must be few: only keys of the schema
	for _, p := range refused {
		reload.Problems = append(reload.Problems, p.Error())
		if p.Key != "" && !slices.Contains(reload.Keys, p.Key) {
			reload.Keys = append(reload.Keys, p.Key)
		}
		if key := p.SchemaKey(); !slices.Contains(schemaKeys, key) {
			schemaKeys = append(schemaKeys, key)
		}
	}
	r.metrics.reloads.WithLabelValues(outcome).Inc()
	r.metrics.setRefused(schemaKeys)
	r.active.lastReload.Store(&reload)
}
