package admin

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"opsgate/cmd/internal/kit/duration"
)

const (
	// overloadCheckEvery is the interval of overload checks.
	overloadCheckEvery = 250 * time.Millisecond
	// recoveryPeriod is the time without refusals after which an overload ends. Shorter pauses do not split an overload.
	recoveryPeriod = 10 * time.Second
)

// A Capacity is a maximum of what requests or connections occupy at a time. Past it, some are
// refused: the beginning and the end of each overload are logged. The gateway stays ready, because
// load balancers would move its traffic to others and overload them too.
type Capacity struct {
	Name     string                                      // on the readiness page; "" for none
	Resource string                                      // what is limited, in words
	Stats    func() (current, limit int, refused uint64) // refused counts from the start of the process
}

// A monitoredCapacity is a capacity with its overload.
type monitoredCapacity struct {
	Capacity

	mu            sync.Mutex
	since         time.Time // beginning of the overload; zero for none
	lastRefusal   time.Time
	refused       uint64 // at the last check
	refusedBefore uint64 // at the beginning of the overload
}

// check starts or ends the overload, by what was refused since the last check.
func (c *monitoredCapacity) check(logger *slog.Logger, now time.Time) {
	_, limit, refused := c.Stats()
	c.mu.Lock()
	defer c.mu.Unlock()
	if refused != c.refused {
		if c.since.IsZero() {
			c.since, c.refusedBefore = now, c.refused
			logger.Warn("overloaded", slog.String("resource", c.Resource), slog.Int("limit", limit))
		}
		c.lastRefusal, c.refused = now, refused
		return
	}
	if !c.since.IsZero() && now.Sub(c.lastRefusal) >= recoveryPeriod {
		logger.Info("not overloaded any more", slog.String("resource", c.Resource), slog.Uint64("refused", c.refused-c.refusedBefore),
			slog.String("lasted", duration.Rounded(c.lastRefusal.Sub(c.since))))
		c.since = time.Time{}
	}
}

// dependency returns the state of the capacity.
func (c *monitoredCapacity) dependency(now time.Time) *Dependency {
	current, limit, _ := c.Stats()
	c.mu.Lock()
	defer c.mu.Unlock()
	d := &Dependency{
		Name: c.Name, Condition: Condition{State: "ready"}, OK: c.since.IsZero(), Since: c.since, InUse: fmt.Sprintf("%d of %d", current, limit),
	}
	if !d.OK {
		d.State = "overloaded"
		d.Reason = fmt.Sprintf("more than %d %s for %s; %d now", limit, c.Resource, duration.Rounded(now.Sub(c.since)), current)
	}
	return d
}
