-- name: ListStatusPages :many
SELECT * FROM status_pages
WHERE team_id = sqlc.arg(team_id)
ORDER BY name, id;

-- name: GetStatusPage :one
SELECT * FROM status_pages
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);

-- name: StatusPageExists :one
SELECT EXISTS (SELECT 1 FROM status_pages WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id));

-- name: ListComponents :many
-- The components of all pages of the team, with the status of the monitor that each is linked to.
SELECT c.*, m.status AS monitor_status
FROM components c
LEFT JOIN monitors m ON m.team_id = c.team_id AND m.id = c.monitor_id
WHERE c.team_id = sqlc.arg(team_id)
ORDER BY c.status_page_id, c.position, c.id;

-- name: GetComponent :one
SELECT * FROM components
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);

-- name: ListOpenIncidents :many
-- The open incidents of all pages of the team.
SELECT * FROM incidents
WHERE team_id = sqlc.arg(team_id) AND status <> 'resolved' AND status_page_id IS NOT NULL;

-- name: InsertStatusPage :exec
INSERT INTO status_pages (id, team_id, name, unique_hostname, slug, visibility, primary_color, description, suspended,
    created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: InsertComponent :exec
INSERT INTO components (id, team_id, status_page_id, monitor_id, name, group_name, position, status)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);
