-- name: NextNotificationAnyTeam :one
-- The first notification that is not expanded into deliveries completely.
SELECT * FROM notifications
WHERE expanded_at IS NULL AND suppressed = 0
ORDER BY created_at, id
LIMIT 1;

-- name: ListConfirmedSubscribersAfterAnyTeam :many
-- Those that are not stopped, and were confirmed before the notification. Both times are in the order of the writes of the team.
SELECT id, channel, address FROM subscribers
WHERE status_page_id = sqlc.arg(status_page_id) AND id > sqlc.arg(after) AND confirmed_at <= sqlc.arg(notified_at)
  AND stopped_at IS NULL
ORDER BY id
LIMIT sqlc.arg(page_size);

-- name: InsertDeliveryAnyTeam :exec
-- The delivery is due now unless an earlier one of the subscriber waits.
INSERT INTO deliveries (id, subscriber_id, channel, receiver, notification_id, state, due_at, created_at)
VALUES (sqlc.arg(id), sqlc.arg(subscriber_id), sqlc.arg(channel), sqlc.arg(receiver), sqlc.narg(notification_id), 'waiting',
    iif(EXISTS (SELECT 1 FROM deliveries d WHERE d.subscriber_id = sqlc.arg(subscriber_id) AND d.state = 'waiting'),
        NULL, CAST(sqlc.arg(now) AS INTEGER)),
    CAST(sqlc.arg(now) AS INTEGER))
ON CONFLICT (notification_id, subscriber_id) DO NOTHING;

-- name: SetNotificationExpandedAnyTeam :exec
UPDATE notifications SET expanded_to = sqlc.arg(expanded_to), expanded_at = sqlc.narg(expanded_at)
WHERE id = sqlc.arg(id);

-- name: ListDueDeliveriesAnyTeam :many
-- Skips receivers in the argument, a list in which a line break precedes and follows each name.
SELECT sequence, subscriber_id, receiver FROM deliveries
WHERE channel = sqlc.arg(channel) AND (attempts > 0) = sqlc.arg(repeated) AND due_at <= sqlc.arg(now)
  AND instr(CAST(sqlc.arg(skipped) AS TEXT), char(10) || receiver || char(10)) = 0
ORDER BY due_at
LIMIT sqlc.arg(page_size);

-- name: GetDueDeliveryAnyTeam :one
SELECT sqlc.embed(d), sqlc.embed(s), sqlc.embed(p)
FROM deliveries d
JOIN subscribers s ON s.id = d.subscriber_id
JOIN status_pages p ON p.id = s.status_page_id
WHERE d.sequence = sqlc.arg(sequence) AND d.due_at IS NOT NULL;

-- name: GetNotifiedEventAnyTeam :one
SELECT sqlc.embed(n), sqlc.embed(i), sqlc.embed(u)
FROM notifications n
JOIN incidents i ON i.id = n.incident_id
JOIN incident_updates u ON u.id = n.update_id
WHERE n.id = sqlc.arg(id);

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

-- name: CountBounceAnyTeam :one
UPDATE subscribers SET bounces = bounces + 1
WHERE id = sqlc.arg(id)
RETURNING bounces;

-- name: ResetBouncesAnyTeam :exec
UPDATE subscribers SET bounces = 0
WHERE id = sqlc.arg(id) AND bounces > 0;

-- name: StopSubscriberAnyTeam :execrows
UPDATE subscribers SET stopped_at = sqlc.arg(stopped_at), note = sqlc.arg(note)
WHERE id = sqlc.arg(id) AND stopped_at IS NULL;

-- name: EndWaitingDeliveriesAnyTeam :exec
-- The messages to a subscriber that is stopped are dead letters.
UPDATE deliveries SET state = 'dead', due_at = NULL, finished_at = sqlc.arg(now), last_error = sqlc.arg(last_error)
WHERE subscriber_id = sqlc.arg(subscriber_id) AND state = 'waiting';

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
