package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/netresearch/go-cron"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/cmd/internal/backend/store/query"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// A scheduledCommand runs by its cron expression, in UTC.
type scheduledCommand struct {
	team     *team
	id       string
	schedule cron.Schedule
	failures int64 // in a row
}

// addScheduledCommands schedules the runs of the enabled scheduled commands of servers that have been seen.
func (t *team) addScheduledCommands(ctx context.Context, q *query.Queries, start time.Time) error {
	r := t.random("scheduled commands")
	var all []*scheduledCommand
	for _, a := range t.agents {
		rows, err := q.ListScheduledCommands(ctx, query.ListScheduledCommandsParams{TeamID: t.id, ServerID: a.server})
		if err != nil {
			return fmt.Errorf("list the scheduled commands: %w", err)
		}
		for _, row := range rows {
			if !row.Enabled {
				continue
			}
			schedule, err := cron.StandardParser().Parse(row.Cron)
			if err != nil {
				return fmt.Errorf("parse the cron expression of %s: %w", row.Name, err)
			}
			all = append(all, &scheduledCommand{team: t, id: row.ID, schedule: schedule, failures: row.ConsecutiveFailures})
		}
	}
	for _, c := range all {
		t.schedule(c.schedule.Next(start), func(ctx context.Context, at time.Time) (time.Time, error) {
			return c.run(ctx, r, all, at)
		})
	}
	return nil
}

// run reports a run with its exit code.
func (c *scheduledCommand) run(ctx context.Context, r *rand.Rand, all []*scheduledCommand, at time.Time) (time.Time, error) {
	run := &ingestv1.ScheduledRun{ScheduledCommandId: c.id, RanAt: timestamppb.New(at)}
	failures := int64(0)
	if c.fails(r, all) {
		run.ExitCode, failures = 1, c.failures+1
	}
	if err := c.team.record(ctx, &ingestv1.CommandItem{Item: &ingestv1.CommandItem_Run{Run: run}}); err != nil {
		return time.Time{}, fmt.Errorf("run a scheduled command: %w", err)
	}
	c.failures = failures
	return c.schedule.Next(at), nil
}

// fails reports whether the next run fails, mostly as the last one did. One command of those that fail keeps failing, and one that works
// keeps working.
func (c *scheduledCommand) fails(r *rand.Rand, all []*scheduledCommand) bool {
	failing := 0
	for _, other := range all {
		if other.failures > 0 {
			failing++
		}
	}
	chance := r.IntN(20)
	if c.failures > 0 {
		return failing == 1 || chance > 0
	}
	return failing < len(all)-1 && chance == 0
}
