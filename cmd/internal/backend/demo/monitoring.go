package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/cmd/internal/backend/store/query"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// checksAge is the age of the oldest checks.
const checksAge = 2 * day

func (t *teamSeeder) insertMonitors(ctx context.Context) error {
	for _, m := range t.monitors {
		if err := t.insertMonitor(ctx, m); err != nil {
			return fmt.Errorf("insert monitor %s: %w", m.name, err)
		}
	}
	return nil
}

// insertMonitor inserts a monitor and its checks. The monitor's status and the time of its last change follow from the checks.
func (t *teamSeeder) insertMonitor(ctx context.Context, m monitor) error {
	row := query.InsertMonitorParams{
		ID: t.id("monitor", m.name), TeamID: teamID(t.team), Name: m.name, Type: m.kind, Target: m.target,
		Status: m.status, Enabled: !m.disabled, IntervalSeconds: int64(m.interval), OpensIncidents: !m.disabled && t.isPublic(m),
	}
	if m.neverChecked {
		return t.q.InsertMonitor(ctx, row)
	}
	checks := t.checks(m)
	last := checks[len(checks)-1].GetCheckedAt().AsTime().UnixNano()
	row.LastCheckAt = &last // so that the checks are late ones, and no rule applies
	for i := len(checks) - 1; i > 0 && row.LastStatusChangeAt == nil; i-- {
		if checks[i].GetStatus() != checks[i-1].GetStatus() {
			changed := checks[i].GetCheckedAt().AsTime().UnixNano()
			row.LastStatusChangeAt = &changed
		}
	}
	if err := t.q.InsertMonitor(ctx, row); err != nil {
		return err
	}
	for _, check := range checks {
		if err := t.recorder.Check(ctx, check); err != nil {
			return fmt.Errorf("insert a check: %w", err)
		}
	}
	return nil
}

// isPublic reports whether a component is linked to the monitor.
func (t *teamSeeder) isPublic(m monitor) bool {
	return slices.ContainsFunc(t.pages, func(p page) bool {
		return slices.ContainsFunc(p.components, func(c component) bool { return c.monitor == m.name })
	})
}

// checks returns a monitor's checks, oldest first.
func (t *teamSeeder) checks(m monitor) []*ingestv1.MonitorCheck {
	r := t.random("checks", m.name)
	interval := time.Duration(m.interval) * time.Second
	until := t.now.Add(-Between(r, time.Second, interval))
	if m.disabled {
		until = until.Add(-6 * time.Hour)
	}
	base := Between(r, 8*time.Millisecond, 180*time.Millisecond)
	// The present status began at most eight hours ago. Another status preceded it for a few checks.
	changedAt := until.Add(-Between(r, 5*time.Minute, 8*time.Hour)).Add(-interval)
	otherAt := changedAt.Add(-3 * interval)
	statuses := newStatusSequence(r, m)
	var checks []*ingestv1.MonitorCheck
	for at := t.now.Add(-checksAge).Add(Between(r, 0, interval)); !at.After(until); at = at.Add(interval) {
		status := statuses.next()
		switch {
		case m.steady:
		case at.After(changedAt):
			status = m.status
		case at.After(otherAt):
			status = statusBefore(m.status)
		}
		checks = append(checks, &ingestv1.MonitorCheck{
			MonitorId: t.id("monitor", m.name), CheckedAt: timestamppb.New(at), Status: status,
			LatencyMs: int32(Latency(r, base, status).Milliseconds()),
		})
	}
	return checks
}

// statusBefore returns the status before the present one.
func statusBefore(status string) string {
	if status == "up" {
		return "down"
	}
	return "up"
}

// A statusSequence generates the status of each check of a target: mostly up, with periods of failure.
type statusSequence struct {
	random    *rand.Rand
	steady    bool
	status    string
	remaining int // remaining checks of the period
}

func newStatusSequence(r *rand.Rand, m monitor) *statusSequence {
	return &statusSequence{random: r, steady: m.steady, status: m.status}
}

func (c *statusSequence) next() string {
	if c.steady {
		return c.status
	}
	if c.remaining--; c.remaining <= 0 {
		c.status, c.remaining = "up", 20+c.random.IntN(200)
		if c.random.IntN(3) == 0 {
			c.status, c.remaining = Pick(c.random, []string{"down", "degraded", "degraded"}), 1+c.random.IntN(6)
		}
	}
	return c.status
}

// Latency returns the response time of a target, between base and twice base if it is up; for down, the timeout of the monitor.
func Latency(r *rand.Rand, base time.Duration, status string) time.Duration {
	const timeout = 10 * time.Second
	switch status {
	case "down":
		return timeout
	case "degraded":
		return 8*base + Between(r, time.Second, 3*time.Second)
	default:
		return base + Between(r, 0, base)
	}
}
