-- name: ListMonitors :many
SELECT * FROM monitors
WHERE team_id = sqlc.arg(team_id)
ORDER BY name, id
LIMIT 1000;

-- name: MonitorExists :one
SELECT EXISTS (SELECT 1 FROM monitors WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id));

-- name: CountMonitorChecks :many
SELECT c.monitor_id, count(*) AS checks, count(CASE WHEN c.status <> 'down' THEN 1 END) AS not_down
FROM monitor_checks c
JOIN monitors m ON m.id = c.monitor_id
WHERE m.team_id = sqlc.arg(team_id) AND c.checked_at >= sqlc.arg(since) AND c.checked_at <= sqlc.arg(until)
GROUP BY c.monitor_id;

-- name: ListMonitorChecks :many
SELECT c.status, c.latency_ms, c.checked_at
FROM monitor_checks c
JOIN monitors m ON m.id = c.monitor_id
WHERE m.team_id = sqlc.arg(team_id) AND m.id = sqlc.arg(monitor_id) AND c.checked_at >= sqlc.arg(since)
ORDER BY c.checked_at DESC
LIMIT 50000;

-- name: InsertMonitor :exec
INSERT INTO monitors (id, team_id, name, type, target, status, enabled, interval_seconds, last_check_at,
    last_status_change_at, opens_incidents)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);
