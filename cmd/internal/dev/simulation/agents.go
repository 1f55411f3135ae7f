package simulation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/store/query"
)

// reportInterval is the interval at which each agent reports.
const reportInterval = time.Minute

// An agent reports the metrics of a server.
type agent struct {
	team, server string
	load         *demo.Load
	delay        time.Duration // how long before the event of all agents it reports
	silentUntil  time.Time
}

// addAgents adds an agent for each server that has been seen.
func (t *team) addAgents(ctx context.Context, q *query.Queries, start time.Time) error {
	servers, err := q.ListServers(ctx, t.id)
	if err != nil {
		return fmt.Errorf("list the servers: %w", err)
	}
	for _, server := range servers {
		if server.LastSeenAt == nil {
			continue
		}
		last, err := q.LastServerMetricAnyTeam(ctx, server.ID)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return fmt.Errorf("get the last metrics of %s: %w", server.Name, err)
		}
		r := t.random("agent", server.Name)
		t.agents = append(t.agents, &agent{
			team: t.id, server: server.ID, load: demo.ContinueLoad(t.name, server.Name, last, r),
			delay: demo.Between(r, 0, reportInterval*5/6),
		})
	}
	if len(t.agents) == 0 {
		return nil
	}
	t.Simulation.agents = append(t.Simulation.agents, t.agents...)
	r := t.random("silence")
	pause := func() time.Duration { return demo.Between(r, 9*time.Hour, 18*time.Hour) / time.Duration(len(t.agents)) }
	t.schedule(start.Add(pause()/4), func(_ context.Context, at time.Time) (time.Time, error) {
		demo.Pick(r, t.agents).silentUntil = at.Add(demo.Between(r, 4*time.Minute, 10*time.Minute))
		return at.Add(pause()), nil
	})
	return nil
}

// report writes the metrics of all servers, except silent ones.
func (s *Simulation) report(ctx context.Context, at time.Time) (time.Time, error) {
	err := s.backend.Store().Write(ctx, func(q *query.Queries) error {
		for _, a := range s.agents {
			if err := a.report(ctx, q, at.Add(-a.delay)); err != nil {
				return err
			}
		}
		return nil
	})
	return at.Add(reportInterval), err
}

func (a *agent) report(ctx context.Context, q *query.Queries, at time.Time) error {
	if at.Before(a.silentUntil) {
		return nil
	}
	row := a.load.At(at)
	row.ServerID = a.server
	if err := q.InsertServerMetricAnyTeam(ctx, row); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	if err := q.SetServerSeen(ctx, query.SetServerSeenParams{TeamID: a.team, ID: a.server, LastSeenAt: &row.At}); err != nil {
		return fmt.Errorf("write when the server was seen: %w", err)
	}
	return nil
}
