-- name: LatestTimeAnyTeam :one
-- The latest time that agents, probes and actions left in the data; 0 for none.
SELECT CAST(max(
    coalesce((SELECT max(last_seen_at) FROM servers), 0),
    coalesce((SELECT max(last_check_at) FROM monitors), 0),
    coalesce((SELECT max(last_run_at) FROM scheduled_commands), 0),
    coalesce((SELECT max(created_at) FROM audit_entries), 0)
) AS INTEGER);

-- name: LastServerMetricAnyTeam :one
SELECT * FROM server_metrics
WHERE server_id = sqlc.arg(server_id)
ORDER BY at DESC
LIMIT 1;

-- name: FastestCheckAnyTeam :one
-- The lowest latency of a check that found the target up; 0 for none.
SELECT CAST(coalesce(min(latency_ms), 0) AS INTEGER) FROM monitor_checks
WHERE monitor_id = sqlc.arg(monitor_id) AND status = 'up';

-- name: ListUnfinishedCommands :many
SELECT * FROM server_commands
WHERE team_id = sqlc.arg(team_id) AND status IN ('queued', 'running')
ORDER BY created_at, id;

-- name: ListUnidentifiedOutages :many
-- The incidents of outages in progress that still have the status investigating.
SELECT i.* FROM monitors m
JOIN incidents i ON i.team_id = m.team_id AND i.id = m.incident_id
WHERE m.team_id = sqlc.arg(team_id) AND i.status = 'investigating'
ORDER BY i.created_at, i.id;

-- name: ListOpenIncidentsWithCreator :many
-- With the actor that created each; NULL for incidents from before the audit log.
SELECT i.*, a.actor_id AS creator FROM incidents i
LEFT JOIN audit_entries a ON a.team_id = i.team_id AND a.created_at = i.created_at
    AND a.action_type = 'incident.created' AND a.resource_id = i.id
WHERE i.team_id = sqlc.arg(team_id) AND i.status <> 'resolved'
ORDER BY i.created_at, i.id;
