-- name: ListAuditEntries :many
-- The prefix is compared as text: no character of it is a wildcard.
SELECT * FROM audit_entries
WHERE team_id = sqlc.arg(team_id)
  AND substr(action_type, 1, length(CAST(sqlc.arg(action_prefix) AS TEXT))) = CAST(sqlc.arg(action_prefix) AS TEXT)
ORDER BY created_at DESC, id DESC
LIMIT sqlc.arg(page_size);

-- name: ListAuditEntriesAfter :many
SELECT * FROM audit_entries
WHERE team_id = sqlc.arg(team_id)
  AND substr(action_type, 1, length(CAST(sqlc.arg(action_prefix) AS TEXT))) = CAST(sqlc.arg(action_prefix) AS TEXT)
  AND (created_at, id) < (sqlc.arg(created_at), CAST(sqlc.arg(id) AS TEXT))
ORDER BY created_at DESC, id DESC
LIMIT sqlc.arg(page_size);

-- name: GetAuditEntry :one
SELECT * FROM audit_entries
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);

-- name: LastAuditTime :one
SELECT created_at FROM audit_entries
WHERE team_id = sqlc.arg(team_id)
ORDER BY created_at DESC, id DESC
LIMIT 1;

-- name: InsertAuditEntry :exec
INSERT INTO audit_entries (id, team_id, action_type, resource_type, resource_id, actor_id, ip_address, request_id,
    created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);
