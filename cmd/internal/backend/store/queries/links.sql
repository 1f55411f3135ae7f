-- name: GetSubscriberByLinkTokenAnyTeam :one
-- An email subscriber and its page. The tokens of webhooks are in no link.
SELECT sqlc.embed(s), p.name AS page_name
FROM subscribers s
JOIN status_pages p ON p.id = s.status_page_id
WHERE s.link_token = sqlc.arg(link_token) AND s.channel = 'email';

-- name: ConfirmSubscriberAnyTeam :exec
UPDATE subscribers SET confirmed_at = sqlc.arg(confirmed_at)
WHERE id = sqlc.arg(id) AND confirmed_at IS NULL;
