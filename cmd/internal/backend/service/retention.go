package service

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"opsgate/cmd/internal/backend/audit"
	"opsgate/cmd/internal/backend/store/query"
)

// How long rows are stored.
const (
	// rawRetention is longer than the longest range of raw points, a day.
	rawRetention = 2 * day
	// hourRetention and checkRetention are longer than the longest range of metrics and the window
	// of uptime, 30 days.
	hourRetention  = 31 * day
	checkRetention = 31 * day

	commandRetention      = 90 * day // of finished commands
	auditRetention        = 400 * day
	deliveryRetention     = 7 * day // of delivered messages
	deadLetterRetention   = 30 * day
	notificationRetention = 30 * day // of notifications without deliveries
)

const (
	// rollUpAfter is the time from the end of an hour to its rollup. Later points of the hour are
	// in the raw series only.
	rollUpAfter = 2 * time.Hour
	// maintenanceBatch bounds the rows that one transaction deletes or computes, because other
	// writers wait for it.
	maintenanceBatch = 500
	// rollupBatch is smaller, because each rollup reads the points of an hour.
	rollupBatch = 50
)

// MaintenanceInterval is the time between two passes of Maintain.
const MaintenanceInterval = time.Hour

// RunMaintenance calls Maintain now and each hour, until ctx ends, and then returns nil. It logs
// failures, and continues.
func (b *Backend) RunMaintenance(ctx context.Context) error {
	ticker := time.NewTicker(MaintenanceInterval)
	defer ticker.Stop()
	for {
		if err := b.Maintain(ctx); err != nil && ctx.Err() == nil {
			b.options.Logger.ErrorContext(ctx, "maintenance failed", "cause", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Maintain writes the rollups of complete hours, and deletes rows after their retention, in bounded
// transactions. The API returns the same before and after, except for rows older than their
// retention. Several processes may maintain one data directory.
func (b *Backend) Maintain(ctx context.Context) error {
	began := time.Now()
	m := maintenance{Backend: b, now: b.options.Clock()}
	if err := b.store.Read(ctx, func(q *query.Queries) error { return m.listOwners(ctx, q) }); err != nil {
		return err
	}
	for _, team := range m.fromTheFuture {
		b.options.Logger.ErrorContext(ctx,
			"a team has rows from the future, because the clock was set forward: later rows are listed below them",
			"team", team, "repair", "opsbackend verify --repair-times --data-dir "+b.store.Dir())
	}
	// Points of hours without a rollup are not deleted, so the rollups are first.
	attributes := []slog.Attr{}
	for _, step := range append([]maintenanceStep{{"rollups_written", m.rollUp}}, m.purges()...) {
		rows, err := step.do(ctx)
		if err != nil {
			return fmt.Errorf("maintenance: %s: %w", step.name, err)
		}
		if rows > 0 {
			attributes = append(attributes, slog.Int64(step.name, rows))
		}
	}
	if len(attributes) > 0 {
		attributes = append(attributes, slog.String("duration", time.Since(began).Round(time.Millisecond).String()))
		b.options.Logger.LogAttrs(ctx, slog.LevelInfo, "maintained the database", attributes...)
	}
	return nil
}

// A maintenance is one pass.
type maintenance struct {
	*Backend

	now      time.Time
	teams    []string
	servers  []query.ListServersAnyTeamRow
	monitors []string

	fromTheFuture []string // teams
}

// A maintenanceStep returns how many rows it wrote or deleted, for the log.
type maintenanceStep struct {
	name string
	do   func(context.Context) (rows int64, err error)
}

func (m *maintenance) listOwners(ctx context.Context, q *query.Queries) error {
	teams, err := q.ListTeams(ctx)
	if err != nil {
		return fmt.Errorf("list the teams: %w", err)
	}
	if m.fromTheFuture, err = q.ListTeamsFromTheFutureAnyTeam(ctx, m.now.Add(audit.MaxAhead).UnixNano()); err != nil {
		return fmt.Errorf("look for rows from the future: %w", err)
	}
	m.teams = convert(teams, func(t query.Team) string { return t.ID })
	if m.servers, err = q.ListServersAnyTeam(ctx); err != nil {
		return fmt.Errorf("list the servers: %w", err)
	}
	if m.monitors, err = q.ListMonitorsAnyTeam(ctx); err != nil {
		return fmt.Errorf("list the monitors: %w", err)
	}
	return nil
}

// rollUp writes the rollups of all hours that ended at least rollUpAfter ago.
func (m *maintenance) rollUp(ctx context.Context) (written int64, err error) {
	until := m.now.Add(-rollUpAfter).Truncate(time.Hour).UnixNano()
	for _, server := range m.servers {
		var hours []int64
		err := m.store.Read(ctx, func(q *query.Queries) (err error) {
			hours, err = q.ListHoursToRollUpAnyTeam(ctx, query.ListHoursToRollUpAnyTeamParams{ServerID: server.ID, Until: until})
			return err
		})
		if err != nil {
			return written, fmt.Errorf("list the hours of server %s: %w", server.ID, err)
		}
		for batch := range slices.Chunk(hours, rollupBatch) {
			err := m.store.Write(ctx, func(q *query.Queries) error {
				for _, hour := range batch {
					rows, err := q.InsertMetricHourAnyTeam(ctx, query.InsertMetricHourAnyTeamParams{ServerID: server.ID, At: hour})
					if err != nil {
						return err
					}
					written += rows
				}
				return nil
			})
			if err != nil {
				return written, fmt.Errorf("roll up an hour of server %s: %w", server.ID, err)
			}
		}
	}
	return written, nil
}

// purges returns the deletions.
func (m *maintenance) purges() []maintenanceStep {
	before := func(retention time.Duration) int64 { return m.now.Add(-retention).UnixNano() }
	finished := func(state string, retention time.Duration) deletion {
		until := before(retention)
		return func(ctx context.Context, q *query.Queries, batch int64) (int64, error) {
			return q.DeleteDeliveriesAnyTeam(ctx, query.DeleteDeliveriesAnyTeamParams{State: state, Until: &until, Batch: batch})
		}
	}
	return []maintenanceStep{
		m.purge("raw_points_deleted", each(m.servers,
			func(ctx context.Context, q *query.Queries, server query.ListServersAnyTeamRow, batch int64) (int64, error) {
				return q.DeleteRolledUpMetricsAnyTeam(ctx,
					query.DeleteRolledUpMetricsAnyTeamParams{ServerID: server.ID, Until: before(rawRetention), Batch: batch})
			})...),
		m.purge("rollups_deleted", each(m.servers,
			func(ctx context.Context, q *query.Queries, server query.ListServersAnyTeamRow, batch int64) (int64, error) {
				return q.DeleteMetricHoursAnyTeam(ctx,
					query.DeleteMetricHoursAnyTeamParams{ServerID: server.ID, Until: before(hourRetention), Batch: batch})
			})...),
		m.purge("checks_deleted", each(m.monitors,
			func(ctx context.Context, q *query.Queries, monitor string, batch int64) (int64, error) {
				return q.DeleteMonitorChecksAnyTeam(ctx,
					query.DeleteMonitorChecksAnyTeamParams{MonitorID: monitor, Until: before(checkRetention), Batch: batch})
			})...),
		m.purge("commands_deleted", each(m.servers,
			func(ctx context.Context, q *query.Queries, server query.ListServersAnyTeamRow, batch int64) (int64, error) {
				return q.DeleteServerCommands(ctx, query.DeleteServerCommandsParams{
					TeamID: server.TeamID, ServerID: server.ID, Until: before(commandRetention), Batch: batch,
				})
			})...),
		m.purge("deliveries_deleted", finished("delivered", deliveryRetention), finished("dead", deadLetterRetention)),
		m.purge("notifications_deleted", each(m.teams,
			func(ctx context.Context, q *query.Queries, team string, batch int64) (int64, error) {
				return q.DeleteNotifications(ctx,
					query.DeleteNotificationsParams{TeamID: team, Until: before(notificationRetention), Batch: batch})
			})...),
		m.purge("idempotency_keys_deleted", each(m.teams,
			func(ctx context.Context, q *query.Queries, team string, batch int64) (int64, error) {
				return q.DeleteExpiredIdempotencyKeys(ctx,
					query.DeleteExpiredIdempotencyKeysParams{TeamID: team, Until: before(keyLifetime), Batch: batch})
			})...),
		{"secrets_deleted", m.deleteSecrets},
		m.purge("audit_entries_deleted", each(m.teams,
			func(ctx context.Context, q *query.Queries, team string, batch int64) (int64, error) {
				return q.DeleteAuditEntries(ctx,
					query.DeleteAuditEntriesParams{TeamID: team, Until: before(auditRetention), Batch: batch})
			})...),
	}
}

// A deletion deletes at most batch rows, and returns how many.
type deletion func(ctx context.Context, q *query.Queries, batch int64) (int64, error)

// each returns a deletion for each owner of rows.
func each[Owner any](
	owners []Owner, remove func(ctx context.Context, q *query.Queries, owner Owner, batch int64) (int64, error),
) []deletion {
	deletions := make([]deletion, len(owners))
	for i, owner := range owners {
		deletions[i] = func(ctx context.Context, q *query.Queries, batch int64) (int64, error) {
			return remove(ctx, q, owner, batch)
		}
	}
	return deletions
}

// purge returns a step that executes deletions until they have no rows left. Each of its
// transactions deletes at most maintenanceBatch rows: few rows of many owners take one transaction.
func (m *maintenance) purge(name string, deletions ...deletion) maintenanceStep {
	return maintenanceStep{name: name, do: func(ctx context.Context) (deleted int64, err error) {
		for remaining := deletions; len(remaining) > 0; {
			err := m.store.Write(ctx, func(q *query.Queries) error {
				for batch := int64(maintenanceBatch); batch > 0 && len(remaining) > 0; {
					rows, err := remaining[0](ctx, q, batch)
					if err != nil {
						return err
					}
					if rows < batch {
						remaining = remaining[1:]
					}
					deleted += rows
					batch -= rows
				}
				return nil
			})
			if err != nil {
				return deleted, err
			}
		}
		return deleted, nil
	}}
}

// deleteSecrets deletes secrets that are not used any more since a rotation.
func (m *maintenance) deleteSecrets(ctx context.Context) (deleted int64, err error) {
	until := m.now.UnixNano()
	err = m.store.Write(ctx, func(q *query.Queries) error {
		deleted, err = q.DeleteExpiredSecretsAnyTeam(ctx, &until)
		return err
	})
	return deleted, err
}
