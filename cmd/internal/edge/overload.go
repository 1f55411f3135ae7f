package edge

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"opsgate/cmd/internal/admin"
	"opsgate/gateway"
)

const (
	// lookEvery is how often bounds are looked at.
	lookEvery = 250 * time.Millisecond
	// calmFor is how long a bound must have been kept to for an overload to be over. One that comes and goes is one.
	calmFor = 10 * time.Second
)

// Overload tells of bounds that are reached: in the log when that begins and when it is over, and on the readiness page meanwhile. The
// gateway is ready nevertheless: load balancers that took away one which has too much to do would give it to the next.
type overload struct {
	logger *slog.Logger
	clock  func() time.Time
	bounds []*bound
}

// A bound is something that is refused past a number.
type bound struct {
	name string                                 // on the readiness page
	what string                                 // is over its bound, for the log
	load func() (now, most int, refused uint64) // refused counts from the start

	mu    sync.Mutex
	since time.Time // the overload began; zero for none
	last  time.Time // something was refused
	seen  uint64    // of refused
	first uint64    // of refused before it began
}

func newOverload(logger *slog.Logger, clock func() time.Time, capacity *gateway.Capacity, conns *connections) *overload {
	return &overload{logger: logger, clock: clock, bounds: []*bound{
		{name: "capacity", what: "requests in flight", load: capacity.Load},
		{name: "connections", what: "open connections", load: conns.load},
	}}
}

// load returns how many connections are open, may be, and were closed for that.
func (l *connections) load() (now, most int, refused uint64) {
	return l.count(), int(l.limit.Load()), l.refused.Load() + l.evicted.Load()
}

// run looks until ctx ends.
func (o *overload) run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, b := range o.bounds {
				b.look(o.logger, o.clock())
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// look notes whether something was refused since the last look.
func (b *bound) look(logger *slog.Logger, now time.Time) {
	_, most, refused := b.load()
	b.mu.Lock()
	defer b.mu.Unlock()
	if refused != b.seen {
		if b.since.IsZero() {
			b.since, b.first = now, b.seen
			logger.Warn("overloaded", slog.String("bound", b.what), slog.Int("most", most))
		}
		b.last, b.seen = now, refused
		return
	}
	if !b.since.IsZero() && now.Sub(b.last) >= calmFor {
		logger.Info("not overloaded any more", slog.String("bound", b.what), slog.Uint64("refused", b.seen-b.first),
			slog.String("lasted", b.last.Sub(b.since).Round(time.Second).String()))
		b.since = time.Time{}
	}
}

// dependency says whether the bound is reached.
func (b *bound) dependency(now time.Time) admin.Dependency {
	count, most, _ := b.load()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() {
		return admin.Dependency{State: "ready", OK: true}
	}
	return admin.Dependency{
		State: "overloaded", Since: b.since,
		Reason: fmt.Sprintf("more than %d %s for %s; %d now", most, b.what, lasting(now, b.since), count),
	}
}
