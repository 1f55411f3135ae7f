package demo

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/cmd/internal/backend/inventory"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// checksAge is the age of the oldest checks.
const checksAge = 2 * day

// insertChecks inserts the checks of all monitors.
func (t *teamSeeder) insertChecks(ctx context.Context) error {
	for _, check := range t.checks {
		if err := t.recorder.Check(ctx, check); err != nil {
			return fmt.Errorf("insert a check: %w", err)
		}
	}
	return nil
}

// checksOf returns a monitor's checks, oldest first.
func (t *teamSeeder) checksOf(m inventory.Monitor) []*ingestv1.MonitorCheck {
	r := t.random("checks", m.Name)
	interval := time.Duration(m.Interval) * time.Second
	until := t.now.Add(-Between(r, time.Second, interval))
	if m.Disabled {
		until = until.Add(-6 * time.Hour)
	}
	base := Between(r, 8*time.Millisecond, 180*time.Millisecond)
	// The present status began at most eight hours ago. Another status preceded it for a few
	// checks.
	changedAt := until.Add(-Between(r, 5*time.Minute, 8*time.Hour)).Add(-interval)
	otherAt := changedAt.Add(-3 * interval)
	present := cmp.Or(m.Status, "up")
	statuses := &statusSequence{random: r, steady: t.steady[m.Name], status: present}
	var checks []*ingestv1.MonitorCheck
	for at := t.now.Add(-checksAge).Add(Between(r, 0, interval)); !at.After(until); at = at.Add(interval) {
		status := statuses.next()
		switch {
		case t.steady[m.Name]:
		case at.After(changedAt):
			status = present
		case at.After(otherAt):
			status = statusBefore(present)
		}
		checks = append(checks, &ingestv1.MonitorCheck{
			MonitorId: m.ID, CheckedAt: timestamppb.New(at), Status: status,
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

// A statusSequence generates the status of each check of a target: mostly up, with periods of
// failure.
type statusSequence struct {
	random    *rand.Rand
	steady    bool
	status    string
	remaining int // remaining checks of the period
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

// Latency returns the response time of a target, between base and twice base if it is up; for down,
// the timeout of the monitor.
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
