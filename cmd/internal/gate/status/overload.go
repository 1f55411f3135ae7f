package status

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/kit/duration"
)

const (
	// overloadCheckEvery is the interval of overload checks.
	overloadCheckEvery = 250 * time.Millisecond
	// recoveryPeriod is the time without refusals after which an overload ends. Shorter pauses do not split an overload.
	recoveryPeriod = 10 * time.Second
)

// An OverloadMonitor reports capacities that are exceeded: it logs the beginning and the end of each overload, and has the state for the
// readiness page. The gateway stays ready, because load balancers would move its traffic to others and overload them too.
type OverloadMonitor struct {
	logger *slog.Logger
	clock  func() time.Time
	list   []*monitoredCapacity
}

// A Capacity is a maximum of what requests or connections occupy at a time. Past it, some are refused.
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

// NewOverloadMonitor returns a monitor of capacities.
func NewOverloadMonitor(logger *slog.Logger, clock func() time.Time, list ...Capacity) *OverloadMonitor {
	o := &OverloadMonitor{logger: logger, clock: clock}
	for _, c := range list {
		o.list = append(o.list, &monitoredCapacity{Capacity: c})
	}
	return o
}

// Run checks the capacities until ctx ends. It returns nil.
func (o *OverloadMonitor) Run(ctx context.Context) error {
	tick := time.NewTicker(overloadCheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, c := range o.list {
				c.check(o.logger, o.clock())
			}
		case <-ctx.Done():
			return nil
		}
	}
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

// dependency returns the state of the capacity for the readiness page.
func (c *monitoredCapacity) dependency(now time.Time) admin.Dependency {
	current, limit, _ := c.Stats()
	c.mu.Lock()
	defer c.mu.Unlock()
	load := &admin.Load{Current: current, Limit: limit}
	if c.since.IsZero() {
		return admin.Dependency{State: "ready", OK: true, Load: load}
	}
	return admin.Dependency{
		State: "overloaded", Since: c.since, Load: load,
		Reason: fmt.Sprintf("more than %d %s for %s; %d now", limit, c.Resource, duration.Rounded(now.Sub(c.since)), current),
	}
}
