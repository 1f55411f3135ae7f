package breaker

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"opsgate/internal/shares"
)

// Settings configure circuit breakers.
type Settings struct {
	// Window is the period over which attempts count. It must be longer than the longest deadline,
	// because a breaker that is not closed closes after a period without results.
	Window time.Duration
	// MinRequests is the minimum number of attempts before the breaker opens.
	MinRequests int
	// FailureRate is the ratio of failures of the service that opens the breaker: greater than 0,
	// at most 1. The breaker also opens when all attempts fail for half a second.
	FailureRate float64
	// OpenFor is how long the breaker stays open. While the breaker is not closed, a failing team
	// may make one attempt every OpenFor.
	OpenFor time.Duration
}

// Validate returns an error if the settings cannot be used.
func (s Settings) Validate() error {
	switch {
	case s.Window < windowBuckets: // a bucket would last less than 1 ns
		return fmt.Errorf("breaker window is %v: must be at least %v", s.Window, time.Duration(windowBuckets))
	case s.MinRequests <= 0:
		return fmt.Errorf("breaker's minimum number of requests is %d: must be greater than 0", s.MinRequests)
	case !(s.FailureRate > 0 && s.FailureRate <= 1): // true for NaN too
		return fmt.Errorf("breaker's failure rate is %v: must be greater than 0 and at most 1", s.FailureRate)
	case s.OpenFor <= 0:
		return fmt.Errorf("breaker's open period is %v: must be greater than 0", s.OpenFor)
	}
	return nil
}

// Options are the options of [New].
type Options struct {
	Service string // for the log
	Settings
	Logger *slog.Logger
	// Report is called with the state in [Breakers.Status] when it may have changed.
	Report func(State)
	// Describe returns an error of an attempt as text for operators.
	Describe func(error) string
}

// Breakers are the breakers of the methods of a service.
type Breakers struct {
	options  Options
	breakers []*Breaker
	trials   shares.Pool // slots for attempts while breakers are not closed
	closed   atomic.Bool

	mu sync.Mutex // serializes reports
}

// New returns the breakers of a service, to which [Breakers.Add] adds methods, and reports that
// they are closed.
func New(o Options) *Breakers {
	o.Report(Closed)
	return &Breakers{options: o}
}

// Add returns a closed breaker for a method. Calls of Add must not be concurrent with other calls.
func (b *Breakers) Add(method string) *Breaker {
	m := &Breaker{service: b, method: method}
	m.status.Store(&Status{State: Closed})
	m.reset(b.options.Settings, "")
	b.breakers = append(b.breakers, m)
	return m
}

// Reset closes all breakers and replaces their settings. The reason is logged for each breaker that
// was not closed. Attempts that started before Reset do not count.
func (b *Breakers) Reset(s Settings, reason string) {
	for _, m := range b.breakers {
		m.mu.Lock()
		m.reset(s, reason)
		m.mu.Unlock()
	}
}

// Close prevents unused breakers from closing later, so that nothing is logged after Close.
func (b *Breakers) Close() { b.closed.Store(true) }

// Status returns the status of the service, with the methods of all breakers that are not closed.
func (b *Breakers) Status() Status {
	worst := Status{State: Closed}
	var tripped []string
	for _, m := range b.breakers {
		s := *m.status.Load()
		if s.State == Closed {
			continue
		}
		tripped = append(tripped, m.method)
		if worst.State == Closed || worst.State == HalfOpen && s.State == Open ||
			worst.State == s.State && s.TrippedAt.Before(worst.TrippedAt) {
			worst = s
		}
	}
	slices.Sort(tripped)
	worst.Methods = tripped
	return worst
}

// report logs the state of a breaker, and passes the state of the service to Options.Report.
func (b *Breakers) report(m *Breaker, state State, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.options.Report(b.Status().State)
	level := slog.LevelInfo
	if state == Open {
		level = slog.LevelWarn
	}
	b.options.Logger.Log(context.Background(), level, "circuit breaker is "+string(state),
		slog.String("service", b.options.Service), slog.String("method", m.method), slog.String("reason", reason))
}
