package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"opsgate/cmd/internal/refbackend/store/query"
)

// checkedFor is how far back checks reach.
const checkedFor = 2 * day

func (t *teamLayer) layMonitors(ctx context.Context) error {
	for _, m := range t.monitors {
		if err := t.layMonitor(ctx, m); err != nil {
			return fmt.Errorf("lay monitor %s: %w", m.name, err)
		}
	}
	return nil
}

// layMonitor lays a monitor and its checks, which agree: its status is that of the last check, and changed when they did.
func (t *teamLayer) layMonitor(ctx context.Context, m monitor) error {
	row := query.InsertMonitorParams{
		ID: t.id("monitor", m.name), TeamID: teamID(t.team), Name: m.name, Type: m.kind, Target: m.target,
		Status: m.status, Enabled: !m.disabled, IntervalSeconds: int64(m.interval),
	}
	if m.neverChecked {
		return t.q.InsertMonitor(ctx, row)
	}
	checks := t.checks(m)
	last := checks[len(checks)-1].CheckedAt
	row.LastCheckAt = &last
	for i := len(checks) - 1; i > 0 && row.LastStatusChangeAt == nil; i-- {
		if checks[i].Status != checks[i-1].Status {
			row.LastStatusChangeAt = &checks[i].CheckedAt
		}
	}
	if err := t.q.InsertMonitor(ctx, row); err != nil {
		return err
	}
	for _, check := range checks {
		if err := t.q.InsertMonitorCheck(ctx, check); err != nil {
			return fmt.Errorf("lay a check: %w", err)
		}
	}
	return nil
}

// checks are a monitor's checks, oldest first.
func (t *teamLayer) checks(m monitor) []query.InsertMonitorCheckParams {
	r := t.random("checks", m.name)
	interval := time.Duration(m.interval) * time.Second
	until := t.now.Add(-between(r, time.Second, interval))
	if m.disabled {
		until = until.Add(-6 * time.Hour)
	}
	base := between(r, 8*time.Millisecond, 180*time.Millisecond)
	// The status that the monitor has come to began some hours ago at most, after a spell of another.
	turned := until.Add(-between(r, 5*time.Minute, 8*time.Hour)).Add(-interval)
	before := turned.Add(-3 * interval)
	course := newCourse(r, m)
	var checks []query.InsertMonitorCheckParams
	for at := t.now.Add(-checkedFor).Add(between(r, 0, interval)); !at.After(until); at = at.Add(interval) {
		status := course.next()
		switch {
		case m.steady:
		case at.After(turned):
			status = m.status
		case at.After(before):
			status = statusBefore(m.status)
		}
		checks = append(checks, query.InsertMonitorCheckParams{
			MonitorID: t.id("monitor", m.name), CheckedAt: at.UnixNano(), Status: status,
			LatencyMs: latency(r, base, status).Milliseconds(),
		})
	}
	return checks
}

// statusBefore is what a monitor comes from.
func statusBefore(status string) string {
	if status == "up" {
		return "down"
	}
	return "up"
}

// A course is how a target fares over time: mostly up, with spells of trouble.
type course struct {
	random *rand.Rand
	steady bool
	status string
	left   int // checks that the spell lasts
}

func newCourse(r *rand.Rand, m monitor) *course {
	return &course{random: r, steady: m.steady, status: m.status}
}

func (c *course) next() string {
	if c.steady {
		return c.status
	}
	if c.left--; c.left <= 0 {
		c.status, c.left = "up", 20+c.random.IntN(200)
		if c.random.IntN(3) == 0 {
			c.status, c.left = pick(c.random, []string{"down", "degraded", "degraded"}), 1+c.random.IntN(6)
		}
	}
	return c.status
}

// latency is how long a target took; one that is down took as long as the monitor waits.
func latency(r *rand.Rand, base time.Duration, status string) time.Duration {
	const patience = 10 * time.Second
	switch status {
	case "down":
		return patience
	case "degraded":
		return 8*base + between(r, time.Second, 3*time.Second)
	default:
		return base + between(r, 0, base)
	}
}
