package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/store/query"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// commandTimeout is the time after which a command is ended.
const commandTimeout = 5 * time.Minute

// A command runs on a server.
type command struct {
	*team

	report *ingestv1.ServerCommand // the last one
	status string                  // at its end
	code   int32
}

// addCommands continues the commands that are queued or running, and lets people run further ones.
func (t *team) addCommands(ctx context.Context, q *query.Queries, start time.Time) error {
	unfinished, err := q.ListUnfinishedCommands(ctx, t.id)
	if err != nil {
		return fmt.Errorf("list the commands: %w", err)
	}
	r := t.random("commands")
	for _, row := range unfinished {
		c := &command{team: t, report: &ingestv1.ServerCommand{
			Id: row.ID, ServerId: row.ServerID, Command: row.Command, Source: row.Source, Status: row.Status, CreatedAt: stored(row.CreatedAt),
		}}
		switch soon := start.Add(demo.Between(r, 10*time.Second, 10*time.Minute)); {
		case demo.HasFixedHistory(row.ServerID):
		case row.StartedAt == nil:
			t.schedule(soon, c.start(r))
		default:
			c.report.StartedAt = stored(*row.StartedAt)
			c.status, c.code = "timed_out", demo.ExitCode(r, "timed_out")
			t.schedule(soon, c.finish)
		}
	}
	var servers []*agent
	for _, a := range t.agents {
		if !demo.HasFixedHistory(a.server) {
			servers = append(servers, a)
		}
	}
	if len(servers) == 0 {
		return nil
	}
	pause := func() time.Duration {
		return demo.Between(r, 30*time.Minute, 50*time.Minute) / time.Duration(len(servers))
	}
	t.schedule(start.Add(pause()/2), func(ctx context.Context, at time.Time) (time.Time, error) {
		if a := demo.Pick(r, servers); !at.Before(a.silentUntil) {
			return at.Add(pause()), t.execute(ctx, r, a.server, at)
		}
		return at.Add(pause()), nil
	})
	return nil
}

// stored converts stored nanoseconds.
func stored(nanoseconds int64) *timestamppb.Timestamp {
	return timestamppb.New(time.Unix(0, nanoseconds))
}

// execute creates a command, which then runs on the server.
func (t *team) execute(ctx context.Context, r *rand.Rand, server string, at time.Time) error {
	c := &command{team: t, report: &ingestv1.ServerCommand{
		Id: uuid.Must(uuid.NewV7()).String(), ServerId: server, Status: "queued", CreatedAt: timestamppb.New(at),
		Command: demo.Pick(r, demo.CommandTexts()), Source: demo.Pick(r, demo.Sources()),
	}}
	actor := t.actor(r)
	c.report.Actor = &ingestv1.Actor{Id: actor.GetTokenId(), IpAddress: actor.GetIpAddress()}
	if err := c.send(ctx); err != nil {
		return fmt.Errorf("create a command: %w", err)
	}
	t.schedule(at.Add(demo.Between(r, 20*time.Millisecond, 900*time.Millisecond)), c.start(r))
	return nil
}

// send reports the command as it is.
func (c *command) send(ctx context.Context) error {
	return c.record(ctx, &ingestv1.CommandItem{Item: &ingestv1.CommandItem_Command{Command: c.report}})
}

// start returns the activity that starts the command.
func (c *command) start(r *rand.Rand) activity {
	c.status = demo.Pick(r, demo.FinalStatuses())
	c.code = demo.ExitCode(r, c.status)
	duration := demo.Between(r, 40*time.Millisecond, 20*time.Second)
	if r.IntN(3) == 0 {
		duration = demo.Between(r, 20*time.Second, commandTimeout)
	}
	if c.status == "timed_out" {
		duration = commandTimeout
	}
	return func(ctx context.Context, at time.Time) (time.Time, error) {
		c.report.Status, c.report.StartedAt = "running", timestamppb.New(at)
		if err := c.send(ctx); err != nil {
			return time.Time{}, fmt.Errorf("start a command: %w", err)
		}
		c.schedule(at.Add(duration), c.finish)
		return time.Time{}, nil
	}
}

// finish ends the command.
func (c *command) finish(ctx context.Context, at time.Time) (time.Time, error) {
	c.report.Status, c.report.ExitCode, c.report.FinishedAt = c.status, &c.code, timestamppb.New(at)
	if err := c.send(ctx); err != nil {
		return time.Time{}, fmt.Errorf("finish a command: %w", err)
	}
	return time.Time{}, nil
}
