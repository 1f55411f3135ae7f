package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// maxFaults bounds the lines of one kind of fault.
const maxFaults = 100

// faults are queries for faults, which have one text for each. Their argument is the time after which rows are from the future. The texts
// contain ids, and nothing that a team has written.
func faults() []string {
	return []string{
		`SELECT 'the file is damaged: ' || integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'`,
		`SELECT 'row ' || coalesce(rowid, '?') || ' of ' || "table" || ' refers to a row of ' || parent || ' that does not exist'
		FROM pragma_foreign_key_check`,
		`SELECT 'delivery ' || id || ' waits, but has no time, and no earlier message of its subscriber waits' FROM deliveries d
		WHERE state = 'waiting' AND due_at IS NULL AND NOT EXISTS (SELECT 1 FROM deliveries e
			WHERE e.subscriber_id = d.subscriber_id AND e.state = 'waiting' AND e.sequence < d.sequence)`,
		`SELECT 'delivery ' || id || ' has no notification, and is not the request to confirm a subscription' FROM deliveries
		WHERE notification_id IS NULL AND channel <> 'email'`,
		`SELECT 'notification ' || id || ' reached some subscribers of its page an hour ago, and not the others' FROM notifications
		WHERE expanded_at IS NULL AND expanded_to <> '' AND created_at < ?1 - 25 * 3600000000000`,
		`SELECT 'team ' || t.id || ' has rows from the future: verify --repair-times moves them to the present' FROM teams t
		WHERE NOT (SELECT runs_ahead FROM installation)
			AND EXISTS (SELECT 1 FROM audit_entries a WHERE a.team_id = t.id AND a.created_at > ?1)`,
	}
}

// Verify returns the faults of the database, a line for each: a damaged file, references to missing rows, deliveries that are never sent,
// and rows of a team more than a day after now. Other processes may use the database meanwhile.
func (s *Store) Verify(ctx context.Context, now time.Time) (found []string, err error) {
	for _, statement := range faults() {
		rows, err := s.readers.QueryContext(ctx, statement+" LIMIT ?2", now.Add(24*time.Hour).UnixNano(), maxFaults)
		if err == nil {
			found, err = appendTexts(found, rows)
		}
		if err != nil {
			return nil, s.withFile(fmt.Errorf("verify the database: %w", err))
		}
	}
	return found, nil
}

func appendTexts(list []string, rows *sql.Rows) ([]string, error) {
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		list = append(list, text)
	}
	return list, errors.Join(rows.Err(), rows.Close())
}

// futureTimes are the columns that RepairTimes changes, each with the team of a row.
func futureTimes() []struct{ table, column, team string } {
	return []struct{ table, column, team string }{
		{"audit_entries", "created_at", "audit_entries.team_id"},
		{"incidents", "started_at", "incidents.team_id"}, {"incidents", "created_at", "incidents.team_id"},
		{"incidents", "resolved_at", "incidents.team_id"},
		{"incident_updates", "created_at", "incident_updates.team_id"},
		{"notifications", "created_at", "notifications.team_id"}, {"notifications", "expanded_at", "notifications.team_id"},
		{"idempotency_keys", "created_at", "idempotency_keys.team_id"},
		{"monitors", "last_check_at", "monitors.team_id"}, {"monitors", "last_status_change_at", "monitors.team_id"},
		{"subscribers", "created_at", "subscribers.team_id"}, {"subscribers", "confirmed_at", "subscribers.team_id"},
		{"api_tokens", "created_at", "api_tokens.team_id"}, {"api_tokens", "revoked_at", "api_tokens.team_id"},
		{"revocations", "revoked_at", "(SELECT team_id FROM api_tokens WHERE api_tokens.id = revocations.token_id)"},
	}
}

// RepairTimes moves times after now, of all teams, to the nanoseconds just before now, in their order; equal times of a team stay equal.
// Messages that wait for more than a day are due now. It returns the number of changed times. Checks and metrics stay.
func (s *Store) RepairTimes(ctx context.Context, now time.Time) (changed int64, err error) {
	tx, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() //nolint:errcheck // no effect after a commit
	execute := func(statement string, arguments ...any) {
		if err != nil {
			return
		}
		var result sql.Result
		if result, err = tx.ExecContext(ctx, statement, arguments...); err != nil {
			return
		}
		var rows int64
		rows, err = result.RowsAffected()
		changed += rows
	}
	execute("CREATE TEMP TABLE future (team_id TEXT, at INTEGER, PRIMARY KEY (team_id, at)) STRICT, WITHOUT ROWID")
	for _, t := range futureTimes() {
		execute("INSERT OR IGNORE INTO future SELECT "+t.team+", "+t.column+" FROM "+t.table+" WHERE "+t.column+" > ?", now.UnixNano())
	}
	execute(`CREATE TEMP TABLE repaired AS SELECT team_id, at, CAST(?1 AS INTEGER) - count(*) OVER (PARTITION BY team_id)
		+ row_number() OVER (PARTITION BY team_id ORDER BY at) - 1 AS present FROM future`, now.UnixNano())
	execute("CREATE UNIQUE INDEX temp.repaired_times ON repaired (team_id, at)")
	changed = 0
	for _, t := range futureTimes() {
		execute(fmt.Sprintf("UPDATE %[1]s SET %[2]s = r.present FROM repaired r WHERE r.team_id = %[3]s AND r.at = %[1]s.%[2]s",
			t.table, t.column, t.team))
	}
	execute("UPDATE deliveries SET due_at = ?1 WHERE due_at > ?1 + 24 * 3600000000000", now.UnixNano())
	execute("UPDATE deliveries SET created_at = ?1 WHERE created_at > ?1 + 24 * 3600000000000", now.UnixNano())
	repaired := changed
	execute("DROP TABLE future")
	execute("DROP TABLE repaired")
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return 0, s.withFile(fmt.Errorf("repair the times: %w", err))
	}
	return repaired, nil
}
