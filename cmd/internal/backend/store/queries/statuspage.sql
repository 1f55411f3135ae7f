-- name: ListStatusPages :many
SELECT * FROM status_pages
WHERE team_id = sqlc.arg(team_id)
ORDER BY name, id
LIMIT 1000;

-- name: GetStatusPage :one
SELECT * FROM status_pages
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);

-- name: ListComponents :many
-- The components of all pages of the team, with the status of the monitor that each is linked to.
SELECT c.*, m.status AS monitor_status
FROM components c
LEFT JOIN monitors m ON m.team_id = c.team_id AND m.id = c.monitor_id
WHERE c.team_id = sqlc.arg(team_id)
ORDER BY c.status_page_id, c.position, c.id
LIMIT 5000;

-- name: GetComponent :one
SELECT * FROM components
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);

-- name: ListPageImpacts :many
-- The pages of the team with the status that each has at least because of its open incidents. Each EXISTS ends at the first incident that
-- it finds in the index incidents_open, however many there are.
SELECT p.id, CAST(CASE
    WHEN EXISTS (SELECT 1 FROM incidents i WHERE i.team_id = p.team_id AND i.status_page_id = p.id AND i.status <> 'resolved'
        AND i.is_maintenance = 0 AND i.affects_page = 1 AND i.impact = 'critical') THEN 'outage'
    WHEN EXISTS (SELECT 1 FROM incidents i WHERE i.team_id = p.team_id AND i.status_page_id = p.id AND i.status <> 'resolved'
        AND i.is_maintenance = 0 AND i.affects_page = 1 AND i.impact IN ('major', 'minor')) THEN 'degraded'
    WHEN EXISTS (SELECT 1 FROM incidents i WHERE i.team_id = p.team_id AND i.status_page_id = p.id AND i.status <> 'resolved'
        AND i.is_maintenance = 1 AND i.started_at <= sqlc.arg(now)) THEN 'maintenance'
    ELSE 'operational' END AS TEXT) AS impact
FROM status_pages p
WHERE p.team_id = sqlc.arg(team_id)
LIMIT 1000;

-- name: InsertStatusPage :exec
INSERT INTO status_pages (id, team_id, name, unique_hostname, slug, visibility, primary_color, description, suspended,
    created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: InsertComponent :exec
INSERT INTO components (id, team_id, status_page_id, monitor_id, name, group_name, position, status)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);
