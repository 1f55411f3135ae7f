-- name: ListIncidents :many
SELECT * FROM incidents
WHERE team_id = sqlc.arg(team_id) AND (created_at, id) < (sqlc.arg(created_at), CAST(sqlc.arg(id) AS TEXT))
ORDER BY created_at DESC, id DESC
LIMIT sqlc.arg(page_size);

-- name: GetIncident :one
SELECT * FROM incidents
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);

-- name: ListIncidentUpdates :many
-- The newest updates of an incident, oldest first: as many as are within both limits. octet_length does not read the text.
SELECT u.* FROM incident_updates u
WHERE u.team_id = sqlc.arg(team_id) AND u.id IN (
    SELECT sums.id FROM (
        SELECT newest.id, sum(newest.bytes) OVER (ORDER BY newest.created_at DESC, newest.id DESC) AS total FROM (
            SELECT n.id, n.created_at, octet_length(n.message) AS bytes FROM incident_updates n
            WHERE n.team_id = sqlc.arg(team_id) AND n.incident_id = sqlc.arg(incident_id)
            ORDER BY n.created_at DESC, n.id DESC
            LIMIT sqlc.arg(max_updates)) newest) sums
    WHERE sums.total <= CAST(sqlc.arg(max_bytes) AS INTEGER))
ORDER BY u.created_at, u.id;

-- name: MeasureIncidentUpdates :one
-- The number of an incident's updates, and the bytes of their texts.
SELECT count(*) AS updates, CAST(coalesce(sum(octet_length(message)), 0) AS INTEGER) AS bytes FROM incident_updates
WHERE team_id = sqlc.arg(team_id) AND incident_id = sqlc.arg(incident_id);

-- name: CountOpenIncidents :one
-- The number of the team's open incidents, at most the limit.
SELECT count(*) FROM (
    SELECT 1 FROM incidents WHERE team_id = sqlc.arg(team_id) AND status <> 'resolved' LIMIT sqlc.arg(max_count));

-- name: ListStatusPageIncidents :many
SELECT * FROM incidents
WHERE team_id = sqlc.arg(team_id) AND status_page_id = sqlc.arg(status_page_id)
ORDER BY created_at DESC, id DESC
LIMIT sqlc.arg(page_size);

-- name: InsertIncident :exec
INSERT INTO incidents (id, team_id, status_page_id, title, status, impact, is_maintenance, started_at, resolved_at,
    created_at, affects_page)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: SetIncidentStatus :exec
UPDATE incidents SET status = sqlc.arg(status), resolved_at = sqlc.narg(resolved_at)
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);

-- name: InsertIncidentUpdate :exec
INSERT INTO incident_updates (id, team_id, incident_id, status, message, created_at) VALUES (?, ?, ?, ?, ?, ?);

-- name: InsertIncidentComponent :exec
INSERT INTO incident_components (team_id, incident_id, component_id) VALUES (?, ?, ?);

-- name: InsertNotification :exec
INSERT INTO notifications (id, team_id, status_page_id, incident_id, update_id, event, suppressed, created_at, traceparent)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: GetIdempotencyKey :one
SELECT * FROM idempotency_keys
WHERE team_id = sqlc.arg(team_id) AND key = sqlc.arg(key);

-- name: InsertIdempotencyKey :exec
INSERT INTO idempotency_keys (team_id, key, request, fingerprint, response, created_at) VALUES (?, ?, ?, ?, ?, ?);

-- name: DeleteIdempotencyKeyIfExpired :exec
DELETE FROM idempotency_keys
WHERE team_id = sqlc.arg(team_id) AND key = sqlc.arg(key) AND created_at <= sqlc.arg(until);
