package simulation

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/query"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

const (
	// tick is the interval at which Run looks for events that are due.
	tick = 100 * time.Millisecond
	// stepTimeout limits the time of an event: the database may be busy.
	stepTimeout = time.Minute
	// retryAfter is the time after which an event that failed is repeated.
	retryAfter = time.Minute
)

// Options are the settings of a simulation.
type Options struct {
	// Backend has the demo data, and the same clock.
	Backend *service.Backend
	// Ingest is the ingest service of the backend, to which agents and probes report.
	Ingest ingestv1.IngestServiceClient
	// Clock returns the time of the simulation.
	Clock func() time.Time
	Seed  uint64
	// Logger receives a record for each event that failed.
	Logger *slog.Logger
}

// A Simulation generates events. Its methods must not be called concurrently.
type Simulation struct {
	backend *service.Backend
	ingest  ingestv1.IngestServiceClient
	clock   func() time.Time
	logger  *slog.Logger
	seed    uint64
	events  queue
	agents  []*agent // of all teams
}

// New returns a simulation that continues the data of the backend from the present time of the clock.
func New(ctx context.Context, o Options) (*Simulation, error) {
	s := &Simulation{backend: o.Backend, ingest: o.Ingest, clock: o.Clock, logger: o.Logger, seed: o.Seed}
	start := o.Clock().UTC()
	err := o.Backend.Store().Read(ctx, func(q *query.Queries) error {
		teams, err := q.ListTeams(ctx)
		if err != nil {
			return fmt.Errorf("list the teams: %w", err)
		}
		for _, row := range teams {
			if err := s.addTeam(ctx, q, row, start); err != nil {
				return fmt.Errorf("load the team %s: %w", row.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.schedule(start.Add(reportInterval), s.report)
	s.schedule(start.Add(service.MaintenanceInterval), func(ctx context.Context, at time.Time) (time.Time, error) {
		return at.Add(service.MaintenanceInterval), s.backend.Maintain(ctx)
	})
	return s, nil
}

// A team is one of the teams of the data. Each of its activities has a generator of its own, so that they do not affect each other.
type team struct {
	*Simulation

	id, name string
	agents   []*agent // of servers that have been seen
	targets  []*target
	pages    []page // not suspended
}

// addTeam loads a team and schedules its activities.
func (s *Simulation) addTeam(ctx context.Context, q *query.Queries, row query.Team, start time.Time) error {
	t := &team{Simulation: s, id: row.ID, name: row.Name}
	for _, add := range []func(context.Context, *query.Queries, time.Time) error{
		t.addAgents, t.addScheduledCommands, t.addCommands, t.addTargets, t.addResponders,
	} {
		if err := add(ctx, q, start); err != nil {
			return err
		}
	}
	return nil
}

// random returns a generator for a topic of the team.
func (t *team) random(topic ...string) *rand.Rand {
	text := fmt.Sprintf("opsgate simulation %d\n%s\n%s", t.seed, t.name, strings.Join(topic, "\n"))
	return rand.New(rand.NewChaCha8(sha256.Sum256([]byte(text))))
}

// Advance performs the events that are due until a time, in their order. An event that fails does not stop the others: it is repeated
// later, and its error is part of the result. Advance ends early if ctx ends.
func (s *Simulation) Advance(ctx context.Context, until time.Time) error {
	var failures []error
	for ctx.Err() == nil {
		e, due := s.events.next(until)
		if !due {
			break
		}
		next, err := s.perform(ctx, e)
		if err != nil {
			failures = append(failures, fmt.Errorf("at %v: %w", e.at.Format(time.RFC3339), err))
			next = e.at.Add(retryAfter)
		}
		s.schedule(next, e.do)
	}
	return errors.Join(append(failures, ctx.Err())...)
}

func (s *Simulation) perform(ctx context.Context, e event) (next time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return e.do(ctx, e.at)
}

// Run performs events when they are due by the clock, until ctx ends.
func (s *Simulation) Run(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := s.Advance(ctx, s.clock()); err != nil && ctx.Err() == nil {
			s.logger.Warn("the simulation repeats events that failed", "error", err)
		}
	}
}
