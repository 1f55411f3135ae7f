package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"opsgate/cmd/internal/backend/audit"
)

// maxFaults bounds the lines of one kind of fault.
const maxFaults = 100

const (
	// longestPause is more than the longest pause between two attempts of a delivery, 4 hours and
	// 20 % of jitter.
	longestPause = 5 * time.Hour
	// MaxOverlap bounds how long a secret stays valid after it was replaced.
	MaxOverlap = 30 * 24 * time.Hour
)

// faults are queries for faults, which have one text for each. Their arguments are the time now,
// the time after which rows are from the future, and that after which no message waits. The texts
// contain ids, and nothing that a team has written.
func faults() []string {
	return []string{
		`SELECT 'the file is damaged: ' || integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'`,
		`SELECT 'row ' || coalesce(rowid, '?') || ' of ' || "table" || ' refers to a row of ' || parent || ' that does not exist'
		FROM pragma_foreign_key_check`,
		`SELECT 'delivery ' || id || ' waits, but has no time, and no earlier message of its subscriber waits' FROM deliveries d
		WHERE state = 'waiting' AND due_at IS NULL AND NOT EXISTS (SELECT 1 FROM deliveries e
			WHERE e.subscriber_id = d.subscriber_id AND e.state = 'waiting' AND e.sequence < d.sequence)`,
		`SELECT 'delivery ' || id || ' waits longer than any pause: verify --repair-times makes it due' FROM deliveries WHERE due_at > ?3`,
		`SELECT 'team ' || t.id || ' has rows from the future: verify --repair-times moves them to the present' FROM teams t
		WHERE EXISTS (SELECT 1 FROM audit_entries a WHERE a.team_id = t.id AND a.created_at > ?2)`,
	}
}

// Verify returns the faults of the database, a line for each: a damaged file, references to missing
// rows, deliveries that are sent late or never, and rows of a team more than [audit.MaxAhead] after
// now. Other processes may use the database meanwhile.
func (s *Store) Verify(ctx context.Context, now time.Time) (found []string, err error) {
	for _, statement := range faults() {
		rows, err := s.readers.QueryContext(ctx, statement+" LIMIT ?4",
			now.UnixNano(), now.Add(audit.MaxAhead).UnixNano(), now.Add(longestPause).UnixNano(), maxFaults)
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

// A futureTime is a column that RepairTimes changes, with the team of a row.
type futureTime struct{ table, column, team string }

func futureTimes() (all []futureTime) {
	for _, t := range [][]string{
		{"audit_entries", "created_at"}, {"incidents", "started_at", "created_at", "resolved_at"},
		{"incident_updates", "created_at"},
		{"notifications", "created_at"}, {"idempotency_keys", "created_at"},
		{"server_commands", "created_at", "started_at", "finished_at"}, {"teams", "created_at"},
		{"servers", "created_at", "last_seen_at"},
		{"status_pages", "created_at"}, {"monitors", "last_check_at", "last_status_change_at"},
		{"scheduled_commands", "last_run_at"},
		{"subscribers", "created_at"}, {"api_tokens", "created_at", "revoked_at"}, {"revocations", "revoked_at"},
	} {
		table, columns := t[0], t[1:]
		team := map[string]string{
			"teams": "teams.id", "revocations": "(SELECT team_id FROM api_tokens WHERE api_tokens.id = revocations.token_id)",
		}[table]
		for _, column := range columns {
			all = append(all, futureTime{table, column, cmp.Or(team, table+".team_id")})
		}
	}
	return all
}

// RepairTimes moves times after the present, of all teams, to the nanoseconds just before it, in
// their order; equal times of a team stay equal. Messages that wait for longer than any pause are
// due now, and replaced secrets end after the longest overlap at the latest. It returns the number
// of changed times. Checks and metrics stay.
func (s *Store) RepairTimes(ctx context.Context, clock func() time.Time) (changed int64, err error) {
	err = s.transact(ctx, func(tx *sql.Tx) error {
		if changed, err = repairTimes(ctx, tx, clock()); err != nil { // after the wait for other writers
			return fmt.Errorf("repair the times: %w", err)
		}
		return nil
	})
	return changed, err
}

func repairTimes(ctx context.Context, tx *sql.Tx, now time.Time) (changed int64, err error) {
	present := now.UnixNano()
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
		execute("INSERT OR IGNORE INTO future SELECT "+t.team+", "+t.column+" FROM "+t.table+" WHERE "+t.column+" > ?",
			present)
	}
	execute(`CREATE TEMP TABLE repaired AS SELECT team_id, at, CAST(?1 AS INTEGER) - count(*) OVER (PARTITION BY team_id)
		+ row_number() OVER (PARTITION BY team_id ORDER BY at) - 1 AS present FROM future`, present)
	execute("CREATE UNIQUE INDEX temp.repaired_times ON repaired (team_id, at)")
	changed = 0
	for _, t := range futureTimes() {
		execute(fmt.Sprintf("UPDATE %[1]s SET %[2]s = r.present FROM repaired r WHERE r.team_id = %[3]s AND r.at = "+
			"%[1]s.%[2]s",
			t.table, t.column, t.team))
	}
	execute("UPDATE deliveries SET due_at = ?1 WHERE due_at > ?2", present, now.Add(longestPause).UnixNano())
	execute("UPDATE deliveries SET created_at = ?1 WHERE created_at > ?2", present, now.Add(audit.MaxAhead).UnixNano())
	execute("UPDATE subscribers SET previous_secret_until = ?1 WHERE previous_secret_until > ?1",
		now.Add(MaxOverlap).UnixNano())
	repaired := changed
	execute("DROP TABLE future")
	execute("DROP TABLE repaired")
	return repaired, err
}
