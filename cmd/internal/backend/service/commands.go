package service

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/cmd/internal/backend/audit"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/internal/uuid"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// commandExecuted is the action type of a command in the audit log.
const commandExecuted = "command.executed"

// maxCommandTexts is the bound of the texts of a command, in bytes, which the schema has too.
const maxCommandTexts = 16 << 10

// Steps of a command, in their order.
const (
	commandQueued = iota
	commandRunning
	commandEnded
)

// commandStep returns the step of a command's status, and whether the status is known.
func commandStep(status string) (step int, known bool) {
	step, known = map[string]int{
		"queued": commandQueued, "running": commandRunning,
		"succeeded": commandEnded, "failed": commandEnded, "cancelled": commandEnded, "timed_out": commandEnded,
	}[status]
	return step, known
}

// Command stores a command or a run of a scheduled command.
func (r *Recorder) Command(ctx context.Context, item *ingestv1.CommandItem) error {
	switch {
	case item.GetRun() != nil:
		return r.run(ctx, item.GetRun())
	case item.GetCommand() != nil:
		return r.command(ctx, item.GetCommand())
	}
	return invalid("an item must have a command or a run")
}

// command stores a command, or its progress if it is stored. Its creation is an action in the audit
// log.
func (r *Recorder) command(ctx context.Context, c *ingestv1.ServerCommand) error {
	row, err := r.commandRow(c)
	if err != nil {
		return err
	}
	actor, err := commandActor(c.GetActor())
	if err != nil {
		return err
	}
	server, err := r.server(ctx, c.GetServerId())
	if err != nil {
		return err
	}
	row.TeamID, row.ServerID = server.team, server.id
	stored, err := r.q.GetServerCommandAnyTeam(ctx, row.ID)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return r.insertCommand(ctx, row, actor)
	case err != nil:
		return fmt.Errorf("look for the command: %w", err)
	case stored.ServerID != row.ServerID:
		return status.Error(codes.AlreadyExists, "a command of another server has this id")
	}
	return r.continueCommand(ctx, stored, row)
}

// commandRow returns the row of a command without its server.
func (r *Recorder) commandRow(c *ingestv1.ServerCommand) (row query.ServerCommand, err error) {
	id, valid := uuid.Canonical(c.GetId())
	step, known := commandStep(c.GetStatus())
	switch {
	case !valid:
		return row, invalid("id must be a UUID")
	case !known:
		return row, invalid("unknown status of a command %q", c.GetStatus())
	case len(c.GetCommand())+len(c.GetSource())+len(c.GetStatus()) > maxCommandTexts:
		return row, invalid("the texts of a command have at most %d bytes", maxCommandTexts)
	case (c.GetFinishedAt() != nil) != (step == commandEnded) || step == commandRunning && c.GetStartedAt() == nil ||
		step == commandQueued && c.GetStartedAt() != nil || step != commandEnded && c.ExitCode != nil:
		return row, invalid("started_at, finished_at and exit_code do not fit the status %s", c.GetStatus())
	}
	row = query.ServerCommand{ID: id, Command: c.GetCommand(), Source: c.GetSource(), Status: c.GetStatus()}
	var wrong [3]error
	row.CreatedAt, wrong[0] = r.time("created_at", c.GetCreatedAt())
	row.StartedAt, wrong[1] = r.optionalTime("started_at", c.GetStartedAt())
	row.FinishedAt, wrong[2] = r.optionalTime("finished_at", c.GetFinishedAt())
	if err := cmp.Or(wrong[:]...); err != nil {
		return row, err
	}
	last := *cmp.Or(row.StartedAt, &row.CreatedAt)
	if last < row.CreatedAt || row.FinishedAt != nil && *row.FinishedAt < last {
		return row, invalid("the times of a command must be in the order created_at, started_at, finished_at")
	}
	if c.ExitCode != nil {
		code := int64(c.GetExitCode())
		row.ExitCode = &code
	}
	return row, nil
}

// duration returns the milliseconds that a command ran; nil unless it has started and ended.
func duration(row query.ServerCommand) *int64 {
	if row.StartedAt == nil || row.FinishedAt == nil {
		return nil
	}
	milliseconds := max(0, time.Duration(*row.FinishedAt-*row.StartedAt).Milliseconds())
	return &milliseconds
}

// commandActor returns the author of the audit entry of a command.
func commandActor(a *ingestv1.Actor) (audit.Actor, error) {
	if a == nil {
		return audit.Service(), nil
	}
	id, valid := uuid.Canonical(a.GetId())
	address, err := netip.ParseAddr(a.GetIpAddress())
	if !valid || err != nil {
		return audit.Actor{}, invalid("actor must have the UUID of a person or a token, and an IP address")
	}
	return audit.Actor{ID: id, IPAddress: address.WithZone("").String()}, nil
}

func (r *Recorder) insertCommand(ctx context.Context, row query.ServerCommand, actor audit.Actor) error {
	row.DurationMs = duration(row)
	if err := r.q.InsertServerCommand(ctx, query.InsertServerCommandParams(row)); err != nil {
		return fmt.Errorf("write a command: %w", err)
	}
	if r.Unaudited {
		return nil
	}
	return actor.Record(ctx, r.q, r.clock, row.TeamID, commandExecuted, row.ID)
}

// continueCommand writes the progress of a stored command, which never goes back.
func (r *Recorder) continueCommand(ctx context.Context, stored, row query.ServerCommand) error {
	before, _ := commandStep(stored.Status)
	if step, _ := commandStep(row.Status); step <= before {
		return nil
	}
	if row.StartedAt == nil {
		row.StartedAt = stored.StartedAt
	}
	err := r.q.SetServerCommandState(ctx, query.SetServerCommandStateParams{
		TeamID: row.TeamID, ID: row.ID, Status: row.Status, ExitCode: row.ExitCode, DurationMs: duration(row),
		StartedAt: row.StartedAt, FinishedAt: row.FinishedAt,
	})
	if err != nil {
		return fmt.Errorf("write the progress of a command: %w", err)
	}
	return nil
}
