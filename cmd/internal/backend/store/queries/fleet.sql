-- name: ListServers :many
SELECT * FROM servers
WHERE team_id = sqlc.arg(team_id)
ORDER BY name, id
LIMIT 1000;

-- name: GetServer :one
SELECT * FROM servers
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);

-- name: ListServerGroups :many
SELECT * FROM server_groups
WHERE team_id = sqlc.arg(team_id)
ORDER BY position, id
LIMIT 1000;

-- name: ListRawMetrics :many
-- The newest points, newest first.
SELECT m.at, m.cpu_percent, m.ram_used_mb, m.ram_total_mb, m.disk_used_gb, m.disk_total_gb
FROM server_metrics m
JOIN servers s ON s.id = m.server_id
WHERE s.team_id = sqlc.arg(team_id) AND s.id = sqlc.arg(server_id)
  AND m.at >= sqlc.arg(since) AND m.at <= sqlc.arg(until)
ORDER BY m.at DESC
LIMIT 10000;

-- name: ListHourlyMetrics :many
-- The rollup of each hour, or the mean of the hour's raw points if it has no rollup yet. 3.6e12 nanoseconds are an hour. The means are the
-- same expressions as those of InsertMetricHour, so a rollup does not change the result.
SELECT CAST(h.at AS INTEGER) AS at, h.cpu_percent, h.ram_used_mb, h.ram_total_mb, h.disk_used_gb, h.disk_total_gb
FROM server_metric_hours h
JOIN servers s ON s.id = h.server_id
WHERE s.team_id = sqlc.arg(team_id) AND s.id = sqlc.arg(server_id)
  AND h.at >= sqlc.arg(since) AND h.at <= sqlc.arg(until)
UNION ALL
SELECT CAST(m.at / 3600000000000 * 3600000000000 AS INTEGER),
       CAST(avg(m.cpu_percent) AS REAL),
       CAST(avg(m.ram_used_mb) AS REAL),
       CAST(avg(m.ram_total_mb) AS REAL),
       CAST(avg(m.disk_used_gb) AS REAL),
       CAST(avg(m.disk_total_gb) AS REAL)
FROM server_metrics m
JOIN servers s ON s.id = m.server_id
WHERE s.team_id = sqlc.arg(team_id) AND s.id = sqlc.arg(server_id)
  AND m.at >= sqlc.arg(since) AND m.at <= sqlc.arg(until)
  AND NOT EXISTS (
      SELECT 1 FROM server_metric_hours h
      WHERE h.server_id = m.server_id AND h.at = m.at / 3600000000000 * 3600000000000)
GROUP BY m.at / 3600000000000
ORDER BY 1
LIMIT 1000;

-- name: ListScheduledCommands :many
SELECT * FROM scheduled_commands
WHERE team_id = sqlc.arg(team_id) AND server_id = sqlc.arg(server_id)
ORDER BY name, id
LIMIT 1000;

-- name: CountServerCommands :one
SELECT count(*) FROM server_commands
WHERE team_id = sqlc.arg(team_id) AND server_id = sqlc.arg(server_id);

-- name: ListServerCommands :many
SELECT * FROM server_commands
WHERE team_id = sqlc.arg(team_id) AND server_id = sqlc.arg(server_id)
ORDER BY created_at DESC, id DESC
LIMIT sqlc.arg(page_size) OFFSET sqlc.arg(skip);

-- name: InsertServerGroup :exec
INSERT INTO server_groups (id, team_id, name, color, position) VALUES (?, ?, ?, ?, ?);

-- name: InsertServer :exec
INSERT INTO servers (id, team_id, group_id, name, host, os, tags, last_seen_at, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: InsertScheduledCommand :exec
INSERT INTO scheduled_commands (id, team_id, server_id, name, command, cron, enabled, last_run_at, last_exit_code,
    consecutive_failures)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);
