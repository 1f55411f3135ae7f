-- name: InsertSubscriber :exec
INSERT INTO subscribers (id, team_id, status_page_id, channel, address, link_token, secret, previous_secret,
    previous_secret_until, created_at, confirmed_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: GetSubscriber :one
SELECT * FROM subscribers
WHERE id = sqlc.arg(id);

-- name: ListSubscribers :many
SELECT * FROM subscribers
ORDER BY status_page_id, created_at, id;
