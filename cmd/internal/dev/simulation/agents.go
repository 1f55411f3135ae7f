package simulation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/store/query"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// reportInterval is the interval at which each agent reports.
const reportInterval = time.Minute

// An agent reports the metrics of a server.
type agent struct {
	server      string
	load        *demo.Load
	delay       time.Duration // how long before the event of all agents it reports
	silentUntil time.Time
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
			server: server.ID, load: demo.ContinueLoad(t.name, server.Name, last, r),
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

// report reports the metrics of all servers, except silent ones.
func (s *Simulation) report(ctx context.Context, at time.Time) (time.Time, error) {
	r := &ingestv1.ReportMetricsRequest{}
	for _, a := range s.agents {
		if sampled := at.Add(-a.delay); !sampled.Before(a.silentUntil) {
			sample := a.load.At(sampled)
			sample.ServerId = a.server
			r.Items = append(r.Items, sample)
		}
	}
	response, err := s.ingest.ReportMetrics(ctx, r)
	if err := accepted(response.GetErrors(), err); err != nil {
		return time.Time{}, fmt.Errorf("report metrics: %w", err)
	}
	return at.Add(reportInterval), nil
}
