-- name: InsertDeliveriesAnyTeam :exec
-- One delivery to each subscriber of a page. It is due at once unless an earlier one of the subscriber waits.
INSERT INTO deliveries (id, subscriber_id, channel, notification_id, state, due_at, created_at)
SELECT lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-8'
        || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))), s.id, s.channel, CAST(sqlc.arg(notification_id) AS TEXT), 'waiting',
    iif(EXISTS (SELECT 1 FROM deliveries d WHERE d.subscriber_id = s.id AND d.state = 'waiting'), NULL, 0),
    CAST(sqlc.arg(created_at) AS INTEGER)
FROM subscribers s
WHERE s.status_page_id = sqlc.arg(status_page_id);

-- name: ListDueDeliveriesAnyTeam :many
SELECT sequence, subscriber_id FROM deliveries
WHERE channel = sqlc.arg(channel) AND (attempts > 0) = sqlc.arg(repeated) AND due_at <= sqlc.arg(now)
ORDER BY due_at
LIMIT sqlc.arg(page_size);

-- name: GetDueDeliveryAnyTeam :one
SELECT sqlc.embed(d), sqlc.embed(s), sqlc.embed(p), sqlc.embed(n), sqlc.embed(i), sqlc.embed(u)
FROM deliveries d
JOIN subscribers s ON s.id = d.subscriber_id
JOIN status_pages p ON p.id = s.status_page_id
JOIN notifications n ON n.id = d.notification_id
JOIN incidents i ON i.id = n.incident_id
JOIN incident_updates u ON u.id = n.update_id
WHERE d.sequence = sqlc.arg(sequence) AND d.due_at IS NOT NULL;

-- name: ListAffectedComponents :many
SELECT c.id, c.name FROM incident_components ic
JOIN components c ON c.id = ic.component_id
WHERE ic.team_id = sqlc.arg(team_id) AND ic.incident_id = sqlc.arg(incident_id)
ORDER BY c.position, c.id;

-- name: SetDeliveryFailedAnyTeam :exec
UPDATE deliveries SET attempts = attempts + 1, last_error = sqlc.arg(last_error), due_at = sqlc.arg(due_at)
WHERE sequence = sqlc.arg(sequence) AND state = 'waiting';

-- name: SetDeliveryFinishedAnyTeam :exec
UPDATE deliveries SET state = sqlc.arg(state), attempts = attempts + 1, last_error = sqlc.arg(last_error), due_at = NULL,
    finished_at = sqlc.arg(finished_at)
WHERE sequence = sqlc.arg(sequence) AND state = 'waiting';

-- name: SetNextDeliveryDueAnyTeam :exec
-- Makes the first waiting delivery of the subscriber due, unless it has a time already.
UPDATE deliveries SET due_at = sqlc.arg(now)
WHERE due_at IS NULL AND sequence = (
    SELECT d.sequence FROM deliveries d
    WHERE d.subscriber_id = sqlc.arg(subscriber_id) AND d.state = 'waiting'
    ORDER BY d.sequence
    LIMIT 1);

-- name: DeleteSubscriberAnyTeam :execrows
-- Its deliveries are deleted with it.
DELETE FROM subscribers WHERE id = sqlc.arg(id);

-- name: CountWaitingDeliveriesAnyTeam :many
SELECT channel, count(*) AS number, CAST(min(created_at) AS INTEGER) AS oldest FROM deliveries
WHERE state = 'waiting'
GROUP BY channel;

-- name: CountDeadLettersAnyTeam :many
-- The second condition is that of the partial index deliveries_finished, which SQLite does not derive from the first.
SELECT channel, count(*) AS number FROM deliveries
WHERE state = 'dead' AND state <> 'waiting'
GROUP BY channel;
