package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"opsgate/cmd/internal/backend/audit"
	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/store/query"
)

const commandExecuted = "command.executed"

// commandTimeout is the time after which a command is ended.
const commandTimeout = 5 * time.Minute

// A command runs on a server.
type command struct {
	*team

	id      string
	started time.Time
	status  string // at its end
	code    int64
}

// addCommands continues the commands that are queued or running, and lets people run further ones.
func (t *team) addCommands(ctx context.Context, q *query.Queries, start time.Time) error {
	unfinished, err := q.ListUnfinishedCommands(ctx, t.id)
	if err != nil {
		return fmt.Errorf("list the commands: %w", err)
	}
	r := t.random("commands")
	for _, row := range unfinished {
		c := &command{team: t, id: row.ID}
		switch soon := start.Add(demo.Between(r, 10*time.Second, 10*time.Minute)); {
		case demo.HasFixedHistory(row.ServerID):
		case row.StartedAt == nil:
			t.schedule(soon, c.start(r))
		default:
			c.started = time.Unix(0, *row.StartedAt)
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

// execute creates a command, which then runs on the server.
func (t *team) execute(ctx context.Context, r *rand.Rand, server string, at time.Time) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("create the id of a command: %w", err)
	}
	row := query.InsertServerCommandParams{
		ID: id.String(), TeamID: t.id, ServerID: server, Status: "queued",
		Command: demo.Pick(r, demo.CommandTexts()), Source: demo.Pick(r, demo.Sources()),
	}
	actor := t.actor(r)
	err = t.backend.Store().Write(ctx, func(q *query.Queries) error {
		row.CreatedAt, err = audit.TimeOfWrite(ctx, q, func() time.Time { return at }, t.id)
		if err != nil {
			return err
		}
		if err := q.InsertServerCommand(ctx, row); err != nil {
			return fmt.Errorf("write a command: %w", err)
		}
		return audit.Action{
			Team: t.id, Kind: commandExecuted, ResourceID: row.ID, At: row.CreatedAt,
			Actor: actor.GetTokenId(), IPAddress: actor.GetIpAddress(),
		}.Record(ctx, q)
	})
	if err != nil {
		return err
	}
	c := &command{team: t, id: row.ID}
	t.schedule(time.Unix(0, row.CreatedAt).Add(demo.Between(r, 20*time.Millisecond, 900*time.Millisecond)), c.start(r))
	return nil
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
		started := at.UnixNano()
		err := c.backend.Store().Write(ctx, func(q *query.Queries) error {
			return q.SetCommandStarted(ctx, query.SetCommandStartedParams{TeamID: c.team.id, ID: c.id, StartedAt: &started})
		})
		if err != nil {
			return time.Time{}, fmt.Errorf("start a command: %w", err)
		}
		c.started = at
		c.schedule(at.Add(duration), c.finish)
		return time.Time{}, nil
	}
}

// finish ends the command.
func (c *command) finish(ctx context.Context, at time.Time) (time.Time, error) {
	finished, duration := at.UnixNano(), at.Sub(c.started).Milliseconds()
	err := c.backend.Store().Write(ctx, func(q *query.Queries) error {
		return q.SetCommandFinished(ctx, query.SetCommandFinishedParams{
			TeamID: c.team.id, ID: c.id, Status: c.status, ExitCode: &c.code, DurationMs: &duration, FinishedAt: &finished,
		})
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("finish a command: %w", err)
	}
	return time.Time{}, nil
}
