-- Rollups, and the deletion of rows after their retention. A deletion is bounded by a batch size, so that other writers do not wait long.

-- name: ListTeamsFromTheFutureAnyTeam :many
-- The teams with entries after the bound.
SELECT id FROM teams
WHERE EXISTS (SELECT 1 FROM audit_entries a WHERE a.team_id = teams.id AND a.created_at > sqlc.arg(bound))
ORDER BY id;

-- name: ListServersAnyTeam :many
SELECT team_id, id FROM servers
ORDER BY team_id, id;

-- name: ListMonitorsAnyTeam :many
SELECT id FROM monitors
ORDER BY id;

-- name: ListHoursToRollUpAnyTeam :many
-- The hours before a time that have raw points and no rollup.
SELECT DISTINCT CAST(m.at / 3600000000000 * 3600000000000 AS INTEGER) AS at
FROM server_metrics m
WHERE m.server_id = sqlc.arg(server_id) AND m.at < sqlc.arg(until)
  AND NOT EXISTS (
      SELECT 1 FROM server_metric_hours h
      WHERE h.server_id = m.server_id AND h.at = m.at / 3600000000000 * 3600000000000)
ORDER BY 1;

-- name: InsertMetricHourAnyTeam :execrows
-- Another process may have written it since.
INSERT INTO server_metric_hours (server_id, at, cpu_percent, ram_used_mb, ram_total_mb, disk_used_gb, disk_total_gb)
SELECT m.server_id,
       CAST(m.at / 3600000000000 * 3600000000000 AS INTEGER),
       CAST(avg(m.cpu_percent) AS REAL),
       CAST(avg(m.ram_used_mb) AS REAL),
       CAST(avg(m.ram_total_mb) AS REAL),
       CAST(avg(m.disk_used_gb) AS REAL),
       CAST(avg(m.disk_total_gb) AS REAL)
FROM server_metrics m
WHERE m.server_id = sqlc.arg(server_id) AND m.at >= sqlc.arg(at) AND m.at < sqlc.arg(at) + 3600000000000
GROUP BY m.at / 3600000000000
ON CONFLICT (server_id, at) DO NOTHING;

-- name: DeleteRolledUpMetricsAnyTeam :execrows
DELETE FROM server_metrics
WHERE server_metrics.server_id = sqlc.arg(server_id) AND server_metrics.at IN (
    SELECT m.at FROM server_metrics m
    WHERE m.server_id = sqlc.arg(server_id) AND m.at < sqlc.arg(until)
      AND EXISTS (
          SELECT 1 FROM server_metric_hours h
          WHERE h.server_id = m.server_id AND h.at = m.at / 3600000000000 * 3600000000000)
    ORDER BY m.at
    LIMIT sqlc.arg(batch));

-- name: DeleteMetricHoursAnyTeam :execrows
DELETE FROM server_metric_hours
WHERE server_metric_hours.server_id = sqlc.arg(server_id) AND server_metric_hours.at IN (
    SELECT h.at FROM server_metric_hours h
    WHERE h.server_id = sqlc.arg(server_id) AND h.at < sqlc.arg(until)
    ORDER BY h.at
    LIMIT sqlc.arg(batch));

-- name: DeleteMonitorChecksAnyTeam :execrows
DELETE FROM monitor_checks
WHERE monitor_checks.monitor_id = sqlc.arg(monitor_id) AND monitor_checks.checked_at IN (
    SELECT c.checked_at FROM monitor_checks c
    WHERE c.monitor_id = sqlc.arg(monitor_id) AND c.checked_at < sqlc.arg(until)
    ORDER BY c.checked_at
    LIMIT sqlc.arg(batch));

-- name: DeleteServerCommands :execrows
DELETE FROM server_commands
WHERE server_commands.id IN (
    SELECT c.id FROM server_commands c
    WHERE c.team_id = sqlc.arg(team_id) AND c.server_id = sqlc.arg(server_id) AND c.created_at < sqlc.arg(until)
      AND c.finished_at IS NOT NULL
    LIMIT sqlc.arg(batch));

-- name: DeleteDeliveriesAnyTeam :execrows
DELETE FROM deliveries
WHERE deliveries.sequence IN (
    SELECT d.sequence FROM deliveries d
    WHERE d.state = sqlc.arg(state) AND d.state <> 'waiting' AND d.finished_at < sqlc.arg(until)
    LIMIT sqlc.arg(batch));

-- name: DeleteNotifications :execrows
-- Notifications without deliveries.
DELETE FROM notifications
WHERE notifications.id IN (
    SELECT n.id FROM notifications n
    WHERE n.team_id = sqlc.arg(team_id) AND n.created_at < sqlc.arg(until)
      AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.notification_id = n.id)
    LIMIT sqlc.arg(batch));

-- name: DeleteExpiredIdempotencyKeys :execrows
DELETE FROM idempotency_keys
WHERE idempotency_keys.team_id = sqlc.arg(team_id) AND idempotency_keys.key IN (
    SELECT k.key FROM idempotency_keys k
    WHERE k.team_id = sqlc.arg(team_id) AND k.created_at <= sqlc.arg(until)
    LIMIT sqlc.arg(batch));

-- name: DeleteAuditEntries :execrows
DELETE FROM audit_entries
WHERE audit_entries.id IN (
    SELECT a.id FROM audit_entries a
    WHERE a.team_id = sqlc.arg(team_id) AND a.created_at < sqlc.arg(until)
    LIMIT sqlc.arg(batch));
