-- name: ListSubscribersByAddressAnyTeam :many
SELECT p.name AS page, p.unique_hostname AS hostname, s.secret, s.previous_secret, s.previous_secret_until
FROM subscribers s
JOIN status_pages p ON p.team_id = s.team_id AND p.id = s.status_page_id
WHERE s.channel = ? AND s.address = ?
ORDER BY s.id;
