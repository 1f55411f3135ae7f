package service

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/cmd/internal/backend/store/query"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// A Recorder stores what agents and probes report, in one transaction, and looks up each id once.
// Its methods return the error of an item that is refused as a gRPC status; they have written
// nothing then. After any other error the transaction must not be committed.
type Recorder struct {
	// Unaudited omits the audit entries of commands, because they are imported history.
	Unaudited bool

	q         *query.Queries
	clock     func() time.Time
	servers   map[string]*reportedServer // by id, nil for an unknown one, as in the other maps
	monitors  map[string]*query.Monitor
	scheduled map[string]*query.ScheduledCommand
	posted    bool // whether an update of an incident was posted
}

type reportedServer struct {
	id, team string
	seenAt   int64 // by the reports of the transaction
}

// NewRecorder returns a recorder for the transaction of q.
func NewRecorder(q *query.Queries, clock func() time.Time) *Recorder {
	return &Recorder{
		q: q, clock: clock, servers: map[string]*reportedServer{}, monitors: map[string]*query.Monitor{},
		scheduled: map[string]*query.ScheduledCommand{},
	}
}

// once returns the row with an id, or NOT_FOUND. It calls find for the first use of the id only.
func once[T any](known map[string]*T, what, id string, find func(id string) (T, error)) (*T, error) {
	id = strings.ToLower(id)
	row, cached := known[id]
	if !cached {
		found, err := find(id)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("look for the %s: %w", what, err)
		}
		if err == nil {
			row = &found
		}
		known[id] = row
	}
	if row == nil {
		return nil, noSuch(what)
	}
	return row, nil
}

func (r *Recorder) server(ctx context.Context, id string) (*reportedServer, error) {
	return once(r.servers, "server", id, func(id string) (reportedServer, error) {
		team, err := r.q.GetServerTeamAnyTeam(ctx, id)
		return reportedServer{id: id, team: team}, err
	})
}

func invalid(format string, arguments ...any) error {
	return status.Errorf(codes.InvalidArgument, format, arguments...)
}

// time returns the stored form of a time in a report. It refuses a time in the future: see
// MaxClockSkew.
func (r *Recorder) time(field string, t *timestamppb.Timestamp) (int64, error) {
	switch {
	case !t.IsValid() || t.GetSeconds() <= 0:
		return 0, invalid("%s must be a time after 1970", field)
	case t.AsTime().After(r.clock().Add(MaxClockSkew)):
		return 0, invalid("%s is in the future: %v", field, t.AsTime().Format(time.RFC3339))
	}
	return storedTime(t.AsTime()), nil
}

// optionalTime returns nil for nil.
func (r *Recorder) optionalTime(field string, t *timestamppb.Timestamp) (*int64, error) {
	if t == nil {
		return nil, nil //nolint:nilnil // no time is valid
	}
	at, err := r.time(field, t)
	return &at, err
}

// Metrics stores a sample of a server; nothing if there is one of its time.
func (r *Recorder) Metrics(ctx context.Context, m *ingestv1.ServerMetrics) error {
	at, err := r.time("at", m.GetAt())
	if err != nil {
		return err
	}
	// The comparisons also refuse NaN.
	within := func(used, total float64) bool { return used >= 0 && used <= total && total <= maxMetric }
	if !within(m.GetCpuPercent(), 100) || !within(m.GetRamUsedMb(), m.GetRamTotalMb()) ||
		!within(m.GetDiskUsedGb(), m.GetDiskTotalGb()) {
		return invalid("metrics must be: CPU 0 to 100, RAM and disk 0 to their total")
	}
	server, err := r.server(ctx, m.GetServerId())
	if err != nil {
		return err
	}
	err = r.q.InsertServerMetricAnyTeam(ctx, query.InsertServerMetricAnyTeamParams{
		ServerID: server.id, At: at, CpuPercent: m.GetCpuPercent(), RamUsedMb: m.GetRamUsedMb(),
		RamTotalMb: m.GetRamTotalMb(),
		DiskUsedGb: m.GetDiskUsedGb(), DiskTotalGb: m.GetDiskTotalGb(),
	})
	if err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	server.seenAt = max(server.seenAt, at)
	return nil
}

// maxMetric bounds totals, which also refuses infinity.
const maxMetric = 1e15

// Finish writes when the servers that reported metrics were last seen.
func (r *Recorder) Finish(ctx context.Context) error {
	latest := r.clock().Add(MaxClockSkew).UnixNano()
	for _, server := range r.servers {
		if server == nil || server.seenAt == 0 {
			continue
		}
		err := r.q.SetServerSeenAnyTeam(ctx,
			query.SetServerSeenAnyTeamParams{ID: server.id, At: server.seenAt, Latest: latest})
		if err != nil {
			return fmt.Errorf("write when the server was seen: %w", err)
		}
	}
	return nil
}

// run stores a run of a scheduled command; nothing if a later one is stored, unless that is from
// the future: the clock was set back since.
func (r *Recorder) run(ctx context.Context, run *ingestv1.ScheduledRun) error {
	at, err := r.time("ran_at", run.GetRanAt())
	if err != nil {
		return err
	}
	row, err := once(r.scheduled, "scheduled command", run.GetScheduledCommandId(),
		func(id string) (query.ScheduledCommand, error) {
			return r.q.GetScheduledCommandAnyTeam(ctx, id)
		})
	if err != nil || isLate(at, row.LastRunAt, r.clock()) {
		return err
	}
	code := int64(run.GetExitCode())
	row.LastRunAt, row.LastExitCode, row.ConsecutiveFailures = &at, &code, row.ConsecutiveFailures+1
	if code == 0 {
		row.ConsecutiveFailures = 0
	}
	err = r.q.SetScheduledCommandRun(ctx, query.SetScheduledCommandRunParams{
		TeamID: row.TeamID, ID: row.ID, LastRunAt: row.LastRunAt, LastExitCode: row.LastExitCode,
		ConsecutiveFailures: row.ConsecutiveFailures,
	})
	if err != nil {
		return fmt.Errorf("write a run: %w", err)
	}
	return nil
}
