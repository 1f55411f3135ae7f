-- name: GetMonitorAnyTeam :one
SELECT * FROM monitors
WHERE id = sqlc.arg(id);

-- name: InsertNewMonitorCheckAnyTeam :execrows
-- Inserts nothing if the monitor has a check of that time.
INSERT INTO monitor_checks (monitor_id, checked_at, status, latency_ms) VALUES (?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: SetMonitorState :exec
UPDATE monitors
SET status = sqlc.arg(status), last_check_at = sqlc.arg(last_check_at), last_status_change_at = sqlc.arg(last_status_change_at),
    failed_checks = sqlc.arg(failed_checks), good_checks = sqlc.arg(good_checks), incident_id = sqlc.narg(incident_id)
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);

-- name: ListMonitorComponents :many
-- The components that are linked to the monitor, of all pages.
SELECT c.* FROM components c
JOIN status_pages p ON p.team_id = c.team_id AND p.id = c.status_page_id
WHERE c.team_id = sqlc.arg(team_id) AND c.monitor_id = sqlc.arg(monitor_id)
ORDER BY p.name, p.id, c.position, c.id;

-- name: CountActions :one
-- How often an action happened to a resource after a time.
SELECT count(*) FROM audit_entries
WHERE team_id = sqlc.arg(team_id) AND created_at > sqlc.arg(after)
  AND action_type = sqlc.arg(action_type) AND resource_id = sqlc.arg(resource_id);
