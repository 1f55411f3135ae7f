package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/store/query"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// Results of checks.
const (
	up       = "up"
	degraded = "degraded"
	down     = "down"
)

// A target is what an enabled monitor checks.
type target struct {
	*team

	monitor  query.Monitor
	interval time.Duration
	steady   bool // never in trouble
	random   *rand.Rand
	base     time.Duration // of the latency
	trouble  trouble
}

// A trouble decides the results of the checks until a time.
type trouble struct {
	result string
	share  float64 // of the checks that have the result; the others are up
	until  time.Time
}

// addTargets adds a target for each enabled monitor.
func (t *team) addTargets(ctx context.Context, q *query.Queries, start time.Time) error {
	monitors, err := q.ListMonitors(ctx, t.id)
	if err != nil {
		return fmt.Errorf("list the monitors: %w", err)
	}
	for _, monitor := range monitors {
		if !monitor.Enabled {
			continue
		}
		x := &target{
			team: t, monitor: monitor, interval: time.Duration(monitor.IntervalSeconds) * time.Second,
			steady: monitor.LastStatusChangeAt == nil, random: t.random("target", monitor.Name),
		}
		if err := x.setBase(ctx, q); err != nil {
			return err
		}
		if monitor.Status != up { // its cause is not in the data
			x.trouble = trouble{result: monitor.Status, share: 1, until: start.Add(demo.Between(x.random, 3*time.Minute, 10*time.Minute))}
		}
		t.targets = append(t.targets, x)
		t.schedule(x.firstCheck(start), x.check)
	}
	t.addTroubles(start)
	return nil
}

// setBase sets the latency to that of the checks before.
func (x *target) setBase(ctx context.Context, q *query.Queries) error {
	milliseconds, err := q.FastestCheckAnyTeam(ctx, x.monitor.ID)
	if err != nil {
		return fmt.Errorf("get the latency of %s: %w", x.monitor.Name, err)
	}
	x.base = time.Duration(milliseconds) * time.Millisecond
	if x.base == 0 {
		x.base = demo.Between(x.random, 8*time.Millisecond, 180*time.Millisecond)
	}
	return nil
}

// firstCheck returns the time of the first check: when it is due, or soon if it is overdue.
func (x *target) firstCheck(start time.Time) time.Time {
	if last := x.monitor.LastCheckAt; last != nil {
		if due := time.Unix(0, *last).Add(x.interval); due.After(start) {
			return due.UTC()
		}
	}
	return start.Add(demo.Between(x.random, time.Second, min(x.interval, time.Minute)))
}

// check records the result of a check.
func (x *target) check(ctx context.Context, at time.Time) (time.Time, error) {
	result := x.result(at)
	response, err := x.ingest.RecordChecks(ctx, &ingestv1.RecordChecksRequest{Items: []*ingestv1.MonitorCheck{{
		MonitorId: x.monitor.ID, CheckedAt: timestamppb.New(at), Status: result,
		LatencyMs: int32(demo.Latency(x.random, x.base, result).Milliseconds()),
	}}})
	if err := accepted(response.GetErrors(), err); err != nil {
		return time.Time{}, fmt.Errorf("check %s: %w", x.monitor.Name, err)
	}
	return at.Add(x.interval), nil
}

// result returns the result of a check of the time.
func (x *target) result(at time.Time) string {
	const slipsEvery = 300 // checks: a single packet is lost
	switch {
	case x.steady:
		return up
	case x.inTrouble(at):
		if x.random.Float64() < x.trouble.share {
			return x.trouble.result
		}
	case x.random.IntN(slipsEvery) == 0:
		return down
	}
	return up
}

func (x *target) inTrouble(at time.Time) bool { return at.Before(x.trouble.until) }
