package config

import (
	"maps"
	"slices"
	"time"
)

// warn adds what looks like a mistake and is none for certain. The time is that of now, or of the clock where it is nil.
func (l *Loaded) warn(now func() time.Time) {
	if now == nil {
		now = time.Now
	}
	w := warner{loaded: l, now: now()}
	c := l.RateLimit
	if c.Store == StoreRedis && c.OnStoreFailure == FailLocal && c.ExpectedReplicas == 1 {
		w.warn("rate_limit.expected_replicas", "is 1: while Redis is away, each gateway admits the whole of every limit")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Classes)) {
		key, class := Named(classesKey, name), c.Classes[name]
		if len(class.Teams)+len(class.Tokens) == 0 {
			w.warn(key, "has neither teams nor tokens: it limits nobody")
		}
		w.expiry(key, class.Expires)
	}
	w.expiries(teamsKey, c.Teams)
	w.expiries(tokensKey, c.Tokens)
	l.Warnings = append(l.Warnings, w.warnings...).sorted()
}

// A warner collects warnings.
type warner struct {
	loaded   *Loaded
	now      time.Time
	warnings Problems
}

func (w *warner) warn(key, format string, args ...any) {
	w.warnings = append(w.warnings, problem(w.loaded.where(key), key, format, args...))
}

func (w *warner) expiries(key string, overrides Overrides) {
	for _, id := range slices.Sorted(maps.Keys(overrides)) {
		w.expiry(Named(key, id), overrides[id].Expires)
	}
}

func (w *warner) expiry(key string, expires Time) {
	if !expires.IsZero() && !w.now.Before(expires.Time) {
		w.warn(key+".expires", "was %s: what stands here has no effect any more", expires)
	}
}
