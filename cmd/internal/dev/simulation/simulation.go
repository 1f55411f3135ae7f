package simulation

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/query"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

const (
	// tick is the interval at which Run looks for reports that are due.
	tick = time.Second
	// reportInterval is the interval at which agents report.
	reportInterval = time.Minute
	// maxBatch is the largest number of samples in a report.
	maxBatch = 500
	// checksUntilDown is more than the failed checks after which the backend sets a monitor to
	// down.
	checksUntilDown = 4
	// maxInterval is the longest interval of a monitor whose target fails: with a longer one, it
	// would be down for hours.
	maxInterval = 5 * time.Minute
)

// Options are the settings of a simulation.
type Options struct {
	// Backend has the demo data, and the same clock.
	Backend *service.Backend
	Clock   func() time.Time
	Seed    uint64
	// Logger receives a record for reports that failed.
	Logger *slog.Logger
}

// A Simulation reports what agents and probes find. Its methods must not be called concurrently.
type Simulation struct {
	options    Options
	ingest     ingestv1.IngestServiceServer
	random     *rand.Rand
	agents     []agent
	activities []*activity
}

// An activity is performed when it is due, and is due again after the pause that it returns, also
// if it failed.
type activity struct {
	due time.Time
	do  func(ctx context.Context, at time.Time) (pause time.Duration, err error)
}

// An agent reports the metrics of a server.
type agent struct {
	server string
	load   *demo.Load
}

// A target is what an enabled monitor checks.
type target struct {
	monitor  query.Monitor
	interval time.Duration
	base     time.Duration // of the latency
	failure  string        // the result of checks until recovery
	recovery time.Time
}

// New returns a simulation that continues the data of the backend from the present time of the
// clock.
func New(ctx context.Context, o Options) (*Simulation, error) {
	s := &Simulation{options: o, ingest: o.Backend.Ingest(), random: rand.New(rand.NewPCG(o.Seed, 0))}
	start := o.Clock().UTC()
	err := o.Backend.Store().Read(ctx, func(q *query.Queries) error {
		teams, err := q.ListTeams(ctx)
		if err != nil {
			return fmt.Errorf("list the teams: %w", err)
		}
		for _, team := range teams {
			if err := errors.Join(s.addAgents(ctx, q, team), s.addTargets(ctx, q, team, start)); err != nil {
				return fmt.Errorf("load the team %s: %w", team.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.add(start.Add(reportInterval), s.report)
	s.add(start.Add(service.MaintenanceInterval), func(ctx context.Context, _ time.Time) (time.Duration, error) {
		return service.MaintenanceInterval, s.options.Backend.Maintain(ctx)
	})
	return s, nil
}

// add adds an activity that is due at a time.
func (s *Simulation) add(due time.Time, do func(ctx context.Context, at time.Time) (time.Duration, error)) {
	s.activities = append(s.activities, &activity{due, do})
}

// Run performs activities when they are due by the clock, until ctx ends.
func (s *Simulation) Run(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := s.Advance(ctx, s.options.Clock()); err != nil && ctx.Err() == nil {
			s.options.Logger.Warn("the demo data does not move", "error", err)
		}
	}
}

// Advance performs the activities that are due until now, in the order of their times. One that
// fails does not stop the others.
func (s *Simulation) Advance(ctx context.Context, now time.Time) error {
	var failures []error
	for ctx.Err() == nil {
		next := slices.MinFunc(s.activities, func(a, b *activity) int { return a.due.Compare(b.due) })
		if next.due.After(now) {
			break
		}
		pause, err := next.do(ctx, next.due)
		if err != nil {
			failures = append(failures, err)
		}
		if next.due = next.due.Add(pause); next.due.Before(now) { // the computer has slept
			next.due = now
		}
	}
	return errors.Join(failures...)
}

// addAgents adds an agent for each server of the team that has reported before.
func (s *Simulation) addAgents(ctx context.Context, q *query.Queries, team query.Team) error {
	servers, err := q.ListServers(ctx, team.ID)
	if err != nil {
		return fmt.Errorf("list the servers: %w", err)
	}
	for _, server := range servers {
		last, err := q.LastServerMetricAnyTeam(ctx, server.ID)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return fmt.Errorf("get the last metrics of %s: %w", server.Name, err)
		}
		s.agents = append(s.agents, agent{server.ID, demo.ContinueLoad(team.Name, server.Name, last, s.random)})
	}
	return nil
}

// report reports the metrics of all servers.
func (s *Simulation) report(ctx context.Context, at time.Time) (time.Duration, error) {
	for agents := range slices.Chunk(s.agents, maxBatch) {
		r := &ingestv1.ReportMetricsRequest{}
		for _, a := range agents {
			sample := a.load.At(at)
			sample.ServerId = a.server
			r.Items = append(r.Items, sample)
		}
		response, err := s.ingest.ReportMetrics(ctx, r)
		if err := accepted(response.GetErrors(), err); err != nil {
			return reportInterval, fmt.Errorf("report metrics: %w", err)
		}
	}
	return reportInterval, nil
}

// addTargets adds a target for each enabled monitor of the team. Monitors that have never changed
// never will.
func (s *Simulation) addTargets(ctx context.Context, q *query.Queries, team query.Team, start time.Time) error {
	monitors, err := q.ListMonitors(ctx, team.ID)
	if err != nil {
		return fmt.Errorf("list the monitors: %w", err)
	}
	var fragile []*target
	for _, m := range monitors {
		if !m.Enabled {
			continue
		}
		fastest, err := q.FastestCheckAnyTeam(ctx, m.ID)
		if err != nil {
			return fmt.Errorf("get the latency of %s: %w", m.Name, err)
		}
		t := &target{monitor: m, interval: time.Duration(m.IntervalSeconds) * time.Second}
		t.base = cmp.Or(time.Duration(fastest)*time.Millisecond,
			demo.Between(s.random, 8*time.Millisecond, 180*time.Millisecond))
		if m.Status != "up" { // its cause is not in the data
			t.failure, t.recovery = m.Status, start.Add(demo.Between(s.random, 3*time.Minute, 10*time.Minute))
		}
		if m.LastStatusChangeAt != nil && t.interval <= maxInterval {
			fragile = append(fragile, t)
		}
		s.add(s.firstCheck(t, start),
			func(ctx context.Context, at time.Time) (time.Duration, error) { return t.interval, s.check(ctx, t, at) })
	}
	s.addFailures(fragile, start)
	return nil
}

// firstCheck returns the time of the first check: when it is due, or soon if it is overdue.
func (s *Simulation) firstCheck(t *target, start time.Time) time.Time {
	if last := t.monitor.LastCheckAt; last != nil {
		if due := time.Unix(0, *last).Add(t.interval); due.After(start) {
			return due.UTC()
		}
	}
	return start.Add(demo.Between(s.random, time.Second, min(t.interval, time.Minute)))
}

// check records the result of a check.
func (s *Simulation) check(ctx context.Context, t *target, at time.Time) error {
	result := "up"
	if at.Before(t.recovery) {
		result = t.failure
	}
	response, err := s.ingest.RecordChecks(ctx, &ingestv1.RecordChecksRequest{Items: []*ingestv1.MonitorCheck{{
		MonitorId: t.monitor.ID, CheckedAt: timestamppb.New(at), Status: result,
		LatencyMs: int32(demo.Latency(s.random, t.base, result).Milliseconds()),
	}}})
	if err := accepted(response.GetErrors(), err); err != nil {
		return fmt.Errorf("check %s: %w", t.monitor.Name, err)
	}
	return nil
}

// addFailures lets each of the targets fail about once an hour. The first to go down, after a few
// minutes, is the one that is checked most.
func (s *Simulation) addFailures(targets []*target, start time.Time) {
	if len(targets) == 0 {
		return
	}
	slices.SortStableFunc(targets, func(a, b *target) int { return cmp.Compare(a.interval, b.interval) })
	next, failure := targets[0], "down"
	s.add(start.Add(time.Minute), func(_ context.Context, at time.Time) (time.Duration, error) {
		next.failure = failure
		next.recovery = at.Add(checksUntilDown*next.interval + demo.Between(s.random, time.Minute, 5*time.Minute))
		next, failure = demo.Pick(s.random, targets), demo.Pick(s.random, []string{"down", "down", "degraded"})
		return demo.Between(s.random, 40*time.Minute, 80*time.Minute) / time.Duration(len(targets)), nil
	})
}

// accepted returns the error of a report or of its first item that was refused.
func accepted(refused []*ingestv1.ItemError, err error) error {
	if err == nil && len(refused) > 0 {
		err = fmt.Errorf("refused: %s", refused[0].GetMessage())
	}
	return err
}
