-- name: ListAuditEntries :many
SELECT * FROM audit_entries
WHERE team_id = sqlc.arg(team_id) AND (created_at, id) < (sqlc.arg(created_at), CAST(sqlc.arg(id) AS TEXT))
ORDER BY created_at DESC, id DESC
LIMIT sqlc.arg(page_size);

-- name: NextAction :one
-- The team's first action type that is not before the given one in the order of bytes.
SELECT action_type FROM audit_entries
WHERE team_id = sqlc.arg(team_id) AND action_type >= sqlc.arg(action_type)
ORDER BY action_type
LIMIT 1;

-- name: ListAuditEntriesOfAction :many
SELECT * FROM audit_entries
WHERE team_id = sqlc.arg(team_id) AND action_type = sqlc.arg(action_type)
  AND (created_at, id) < (sqlc.arg(created_at), CAST(sqlc.arg(id) AS TEXT))
ORDER BY created_at DESC, id DESC
LIMIT sqlc.arg(page_size);

-- name: GetAuditEntry :one
SELECT * FROM audit_entries
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);

-- name: LastAuditTime :one
-- The time of the team's last entry that is not after the bound.
SELECT created_at FROM audit_entries
WHERE team_id = sqlc.arg(team_id)
  AND created_at <= sqlc.arg(bound)
ORDER BY created_at DESC, id DESC
LIMIT 1;

-- name: InsertAuditEntry :exec
INSERT INTO audit_entries (id, team_id, action_type, resource_type, resource_id, actor_id, ip_address, request_id,
    created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);
