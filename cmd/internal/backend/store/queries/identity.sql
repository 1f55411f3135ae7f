-- name: GetInstallation :one
SELECT id FROM installation;

-- name: InsertTeam :exec
INSERT INTO teams (id, name, plan, created_at, limit_class) VALUES (?, ?, ?, ?, ?);

-- name: ListTeams :many
SELECT * FROM teams
ORDER BY name;

-- name: GetTeam :one
SELECT * FROM teams
WHERE id = sqlc.arg(id);

-- name: GetTeamByName :one
SELECT * FROM teams
WHERE name = sqlc.arg(name);

-- name: SetTeamPlan :exec
UPDATE teams SET plan = sqlc.arg(plan)
WHERE id = sqlc.arg(id);

-- name: InsertToken :exec
INSERT INTO api_tokens (id, team_id, name, sha256, scopes, created_at, revoked_at, limit_class, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: ResolveTokenAnyTeam :one
SELECT t.id, t.name, t.team_id, team.name AS team_name, t.scopes, t.revoked_at, t.expires_at, team.plan,
    CAST(coalesce(nullif(t.limit_class, ''), team.limit_class) AS TEXT) AS limit_class
FROM api_tokens t
JOIN teams team ON team.id = t.team_id
WHERE t.sha256 = sqlc.arg(sha256);

-- name: GetTokenAnyTeam :one
SELECT * FROM api_tokens
WHERE id = sqlc.arg(id);

-- name: ListTokensAnyTeam :many
SELECT * FROM api_tokens
ORDER BY team_id, created_at, id;

-- name: ListTokensThatExpireAnyTeam :many
SELECT * FROM api_tokens
WHERE expires_at <= sqlc.arg(before) AND revoked_at IS NULL
ORDER BY expires_at, id;

-- name: SetTokenRevokedAnyTeam :exec
UPDATE api_tokens SET revoked_at = sqlc.arg(revoked_at)
WHERE id = sqlc.arg(id);

-- name: InsertRevocationAnyTeam :exec
INSERT INTO revocations (token_id, token_sha256, revoked_at) VALUES (?, ?, ?);

-- name: LastRevocationAnyTeam :one
SELECT CAST(coalesce(max(position), 0) AS INTEGER) FROM revocations;

-- name: ListRevocationsAfterAnyTeam :many
SELECT * FROM revocations
WHERE position > sqlc.arg(position)
ORDER BY position
LIMIT sqlc.arg(page_size);
