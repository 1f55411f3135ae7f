// Package outagelog logs outages: one line when something fails, and one when it works again,
// however often it fails in between.
package outagelog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A Log logs the outages of one thing. It is safe for concurrent use.
type Log struct {
	Logger *slog.Logger
	// The messages. The line with Failed is a WARN with the attributes and the cause of the last
	// failure. The line with Recovered is an INFO with the number of failures and the duration of
	// the outage.
	Failed, Recovered string
	Grace             time.Duration // an outage that is shorter is not logged
	Steady            time.Duration // failures less than this apart are one outage

	mu                  sync.Mutex
	failing, logged     bool // the last result; and that of the last line
	began, changed, due time.Time
	pending             bool // settle will run
	failures            int
	cause               error
	attrs               []slog.Attr
}

// Fail records a failure. The cause may be nil.
func (l *Log) Fail(cause error, attrs ...slog.Attr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cause != nil {
		attrs = append(attrs, slog.Any("error", cause))
	}
	if !l.failing && !l.logged {
		l.began, l.failures = time.Now(), 0
	}
	l.cause, l.attrs, l.failures = cause, attrs, l.failures+1
	l.settle(true, l.Grace)
}

// Succeed records a success.
func (l *Log) Succeed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle(false, l.Steady)
}

// Failing returns the time of the first failure since the last success, and the cause of the last
// one; the zero time if it does not fail.
func (l *Log) Failing() (since time.Time, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing {
		since, cause = l.changed, l.cause
	}
	return since, cause
}

// settle logs a change that has lasted long enough; for another one, it runs again. The caller
// holds l.mu.
func (l *Log) settle(failing bool, after time.Duration) {
	if now := time.Now(); failing != l.failing {
		l.failing, l.changed, l.due = failing, now, now.Add(after)
	}
	switch rest := time.Until(l.due); {
	case failing == l.logged || l.pending:
	case rest > 0:
		l.pending = true
		time.AfterFunc(rest, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.pending = false
			l.settle(l.failing, 0)
		})
	case failing:
		l.logged = true
		l.Logger.LogAttrs(context.Background(), slog.LevelWarn, l.Failed, l.attrs...)
	default:
		l.logged = false
		l.Logger.Info(l.Recovered, slog.Int("failures", l.failures), slog.String("lasted", l.changed.Sub(l.began).String()))
	}
}
