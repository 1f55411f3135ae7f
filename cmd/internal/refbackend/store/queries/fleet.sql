-- name: ListServers :many
SELECT * FROM servers
WHERE team_id = sqlc.arg(team_id)
ORDER BY name, id;

-- name: GetServer :one
SELECT * FROM servers
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);

-- name: ServerExists :one
SELECT EXISTS (SELECT 1 FROM servers WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id));

-- name: ListServerGroups :many
SELECT * FROM server_groups
WHERE team_id = sqlc.arg(team_id)
ORDER BY position, id;

-- name: ListRawMetrics :many
SELECT m.at, m.cpu_percent, m.ram_used_mb, m.ram_total_mb, m.disk_used_gb, m.disk_total_gb
FROM server_metrics m
JOIN servers s ON s.id = m.server_id
WHERE s.team_id = sqlc.arg(team_id) AND s.id = sqlc.arg(server_id)
  AND m.at >= sqlc.arg(since) AND m.at <= sqlc.arg(until)
ORDER BY m.at;

-- name: ListHourlyMetrics :many
-- The mean of each hour's raw points, at the start of the hour. 3.6e12 nanoseconds are an hour.
SELECT CAST(m.at / 3600000000000 * 3600000000000 AS INTEGER) AS at,
       CAST(avg(m.cpu_percent) AS REAL) AS cpu_percent,
       CAST(avg(m.ram_used_mb) AS REAL) AS ram_used_mb,
       CAST(avg(m.ram_total_mb) AS REAL) AS ram_total_mb,
       CAST(avg(m.disk_used_gb) AS REAL) AS disk_used_gb,
       CAST(avg(m.disk_total_gb) AS REAL) AS disk_total_gb
FROM server_metrics m
JOIN servers s ON s.id = m.server_id
WHERE s.team_id = sqlc.arg(team_id) AND s.id = sqlc.arg(server_id)
  AND m.at >= sqlc.arg(since) AND m.at <= sqlc.arg(until)
GROUP BY m.at / 3600000000000
ORDER BY m.at / 3600000000000;

-- name: ListScheduledCommands :many
SELECT * FROM scheduled_commands
WHERE team_id = sqlc.arg(team_id) AND server_id = sqlc.arg(server_id)
ORDER BY name, id;

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

-- name: InsertServerMetric :exec
INSERT INTO server_metrics (server_id, at, cpu_percent, ram_used_mb, ram_total_mb, disk_used_gb, disk_total_gb)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: InsertScheduledCommand :exec
INSERT INTO scheduled_commands (id, team_id, server_id, name, command, cron, enabled, last_run_at, last_exit_code,
    consecutive_failures)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: InsertServerCommand :exec
INSERT INTO server_commands (id, team_id, server_id, command, source, status, exit_code, duration_ms, started_at,
    finished_at, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);
