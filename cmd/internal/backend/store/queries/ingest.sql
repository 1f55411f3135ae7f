-- What agents and probes report. Their ids name rows of any team.

-- name: GetServerTeamAnyTeam :one
SELECT team_id FROM servers
WHERE id = sqlc.arg(id);

-- name: InsertServerMetricAnyTeam :exec
-- Inserts nothing if the server has a sample of that time.
INSERT INTO server_metrics (server_id, at, cpu_percent, ram_used_mb, ram_total_mb, disk_used_gb, disk_total_gb)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: SetServerSeenAnyTeam :exec
-- An earlier time than the stored one changes nothing, unless that is after the latest valid one: the clock was set back since.
UPDATE servers SET last_seen_at = CAST(sqlc.arg(at) AS INTEGER)
WHERE id = sqlc.arg(id)
  AND (last_seen_at IS NULL OR last_seen_at NOT BETWEEN CAST(sqlc.arg(at) AS INTEGER) AND CAST(sqlc.arg(latest) AS INTEGER));

-- name: GetServerCommandAnyTeam :one
SELECT * FROM server_commands
WHERE id = sqlc.arg(id);

-- name: InsertServerCommand :exec
INSERT INTO server_commands (id, team_id, server_id, command, source, status, exit_code, duration_ms, started_at,
    finished_at, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: SetServerCommandState :exec
UPDATE server_commands
SET status = sqlc.arg(status), exit_code = sqlc.narg(exit_code), duration_ms = sqlc.narg(duration_ms),
    started_at = sqlc.narg(started_at), finished_at = sqlc.narg(finished_at)
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);

-- name: GetScheduledCommandAnyTeam :one
SELECT * FROM scheduled_commands
WHERE id = sqlc.arg(id);

-- name: SetScheduledCommandRun :exec
UPDATE scheduled_commands
SET last_run_at = sqlc.arg(last_run_at), last_exit_code = sqlc.arg(last_exit_code),
    consecutive_failures = sqlc.arg(consecutive_failures)
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);
