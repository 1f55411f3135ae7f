-- name: InsertSubscriber :exec
INSERT INTO subscribers (id, team_id, status_page_id, channel, address, secret, previous_secret, previous_secret_until, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: GetSubscriberAnyTeam :one
SELECT * FROM subscribers
WHERE id = sqlc.arg(id);

-- name: GetSubscriberByAddressAnyTeam :one
SELECT * FROM subscribers
WHERE status_page_id = sqlc.arg(status_page_id) AND channel = sqlc.arg(channel) AND address = sqlc.arg(address);

-- name: ListSubscribersAnyTeam :many
-- All subscribers, or those of one page, with their numbers of waiting and dead deliveries.
SELECT sqlc.embed(s), p.unique_hostname,
       CAST(coalesce(d.waiting, 0) AS INTEGER) AS waiting, CAST(coalesce(d.dead, 0) AS INTEGER) AS dead
FROM subscribers s
JOIN status_pages p ON p.id = s.status_page_id
LEFT JOIN (
    SELECT subscriber_id, sum(state = 'waiting') AS waiting, sum(state = 'dead') AS dead
    FROM deliveries
    WHERE state IN ('waiting', 'dead')
    GROUP BY subscriber_id
) d ON d.subscriber_id = s.id
WHERE CAST(sqlc.arg(status_page_id) AS TEXT) = '' OR s.status_page_id = CAST(sqlc.arg(status_page_id) AS TEXT)
ORDER BY p.unique_hostname, s.created_at, s.id;

-- name: ListSubscribersOfPageAnyTeam :many
SELECT * FROM subscribers
WHERE status_page_id = sqlc.arg(status_page_id)
ORDER BY created_at, id;

-- name: SetSubscriberSecretsAnyTeam :exec
UPDATE subscribers SET secret = sqlc.arg(secret), previous_secret = sqlc.narg(previous_secret),
    previous_secret_until = sqlc.narg(previous_secret_until)
WHERE id = sqlc.arg(id);

-- name: DeleteExpiredSecretsAnyTeam :execrows
UPDATE subscribers SET previous_secret = NULL, previous_secret_until = NULL
WHERE previous_secret_until <= sqlc.arg(until);

-- name: FindStatusPageAnyTeam :one
-- The page with the id or the hostname, of any team.
SELECT * FROM status_pages
WHERE id = sqlc.arg(id_or_hostname) OR unique_hostname = sqlc.arg(id_or_hostname);

-- name: GetDeliveryAnyTeam :one
SELECT * FROM deliveries
WHERE id = sqlc.arg(id);

-- name: FirstWaitingDeliveryAnyTeam :one
-- The delivery that a subscriber gets before all others.
SELECT id FROM deliveries
WHERE subscriber_id = sqlc.arg(subscriber_id) AND state = 'waiting'
ORDER BY sequence
LIMIT 1;

-- name: SetDeliveryDueAnyTeam :exec
UPDATE deliveries SET due_at = sqlc.arg(due_at)
WHERE id = sqlc.arg(id) AND state = 'waiting';

-- name: ListDeliveriesAnyTeam :many
-- Newest first, optionally of one state or one subscriber.
SELECT d.*, n.event
FROM deliveries d
JOIN notifications n ON n.id = d.notification_id
WHERE (CAST(sqlc.arg(state) AS TEXT) = '' OR d.state = CAST(sqlc.arg(state) AS TEXT))
  AND (CAST(sqlc.arg(subscriber_id) AS TEXT) = '' OR d.subscriber_id = CAST(sqlc.arg(subscriber_id) AS TEXT))
ORDER BY d.sequence DESC
LIMIT sqlc.arg(page_size);

-- name: ListDeadLettersAnyTeam :many
-- Oldest first: those of one subscriber, or of all. The second condition is that of the partial index deliveries_finished.
SELECT id FROM deliveries
WHERE state = 'dead' AND state <> 'waiting'
  AND (CAST(sqlc.arg(subscriber_id) AS TEXT) = '' OR subscriber_id = CAST(sqlc.arg(subscriber_id) AS TEXT))
ORDER BY sequence;

-- name: RetryDeliveryAnyTeam :exec
-- A dead letter waits again, as the last message of its subscriber. It is due at once if no other message of the subscriber waits. It is
-- inserted anew, because only an insertion gets a sequence that no deleted delivery had, of which an attempt may be in progress.
INSERT OR REPLACE INTO deliveries (id, subscriber_id, channel, notification_id, state, due_at, created_at, last_error)
SELECT d.id, d.subscriber_id, d.channel, d.notification_id, 'waiting',
    iif(EXISTS (SELECT 1 FROM deliveries w WHERE w.subscriber_id = d.subscriber_id AND w.state = 'waiting'),
        NULL, CAST(sqlc.arg(now) AS INTEGER)),
    CAST(sqlc.arg(now) AS INTEGER), d.last_error
FROM deliveries d
WHERE d.id = sqlc.arg(id) AND d.state = 'dead';
