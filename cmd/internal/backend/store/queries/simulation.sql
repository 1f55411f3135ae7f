-- name: LastServerMetricAnyTeam :one
SELECT * FROM server_metrics
WHERE server_id = sqlc.arg(server_id)
ORDER BY at DESC
LIMIT 1;

-- name: FastestCheckAnyTeam :one
-- The lowest latency of a check that found the target up; 0 for none.
SELECT CAST(coalesce(min(latency_ms), 0) AS INTEGER) FROM monitor_checks
WHERE monitor_id = sqlc.arg(monitor_id) AND status = 'up';
