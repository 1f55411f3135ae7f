-- Subscribers are those that were added, without a confirmation, and the transaction of an action writes its deliveries itself.

-- +goose Up
-- Addresses whose owners have not confirmed, and those whose mailbox does not exist.
DELETE FROM subscribers WHERE confirmed_at IS NULL OR stopped_at IS NOT NULL;
DELETE FROM deliveries WHERE notification_id IS NULL;

DROP INDEX subscribers_by_page;
DROP INDEX subscribers_unconfirmed;
DROP INDEX subscribers_rotated;
DROP INDEX deliveries_due;
DROP INDEX deliveries_by_subscriber;
DROP INDEX deliveries_waiting;
DROP INDEX deliveries_finished;
DROP INDEX notifications_waiting;
ALTER TABLE subscribers RENAME TO old_subscribers;
ALTER TABLE deliveries RENAME TO old_deliveries;

CREATE TABLE subscribers (
    id                    TEXT    NOT NULL PRIMARY KEY,
    team_id               TEXT    NOT NULL,
    status_page_id        TEXT    NOT NULL,
    channel               TEXT    NOT NULL CHECK (channel IN ('email', 'webhook')),
    -- An email address or a URL.
    address               TEXT    NOT NULL,
    -- Webhooks only: the key of the signatures, and until previous_secret_until also the key before it.
    secret                BLOB,
    previous_secret       BLOB,
    previous_secret_until INTEGER,
    created_at            INTEGER NOT NULL,
    UNIQUE (status_page_id, channel, address),
    FOREIGN KEY (team_id, status_page_id) REFERENCES status_pages (team_id, id)
) STRICT;

INSERT INTO subscribers (id, team_id, status_page_id, channel, address, secret, previous_secret, previous_secret_until, created_at)
SELECT id, team_id, status_page_id, channel, address, secret, previous_secret, previous_secret_until, created_at FROM old_subscribers;

-- For the hourly maintenance: secrets that are not used any more.
CREATE INDEX subscribers_rotated ON subscribers (previous_secret_until) WHERE previous_secret_until IS NOT NULL;

CREATE TABLE deliveries (
    -- A subscriber gets its messages in this order.
    sequence        INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The message id: the same at each attempt, so that receivers can drop repeats.
    id              TEXT    NOT NULL UNIQUE,
    subscriber_id   TEXT    NOT NULL REFERENCES subscribers (id) ON DELETE CASCADE,
    channel         TEXT    NOT NULL CHECK (channel IN ('email', 'webhook')),
    notification_id TEXT    NOT NULL REFERENCES notifications (id),
    state           TEXT    NOT NULL CHECK (state IN ('waiting', 'delivered', 'dead')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    -- Time of the next attempt, 0 for at once. NULL while an earlier message of the subscriber waits, and after the last attempt.
    due_at          INTEGER,
    created_at      INTEGER NOT NULL,
    finished_at     INTEGER,
    -- Why the last attempt failed.
    last_error      TEXT    NOT NULL DEFAULT '',
    UNIQUE (notification_id, subscriber_id)
) STRICT;

INSERT INTO deliveries (sequence, id, subscriber_id, channel, notification_id, state, attempts, due_at, created_at, finished_at, last_error)
SELECT sequence, id, subscriber_id, channel, notification_id, state, attempts, due_at, created_at, finished_at, last_error
FROM old_deliveries;

-- The deliveries of notifications that the version before had not written yet.
INSERT INTO deliveries (id, subscriber_id, channel, notification_id, state, created_at)
SELECT lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-8'
        || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))), s.id, s.channel, n.id, 'waiting', n.created_at
FROM notifications n
JOIN old_subscribers s ON s.status_page_id = n.status_page_id
WHERE n.expanded_at IS NULL AND n.suppressed = 0 AND s.id > n.expanded_to AND s.confirmed_at <= n.created_at
ORDER BY n.created_at, n.id, s.id;

DROP TABLE old_deliveries;
DROP TABLE old_subscribers;

-- First attempts and further attempts are separate ranges, because receivers that fail must not delay others.
CREATE INDEX deliveries_due ON deliveries (channel, attempts > 0, due_at) WHERE due_at IS NOT NULL;
-- Finds the first waiting delivery of a subscriber, and all its deliveries when it is deleted.
CREATE INDEX deliveries_by_subscriber ON deliveries (subscriber_id, state, sequence);
CREATE INDEX deliveries_waiting ON deliveries (channel, created_at) WHERE state = 'waiting';
CREATE INDEX deliveries_finished ON deliveries (state, finished_at) WHERE state <> 'waiting';

-- The first waiting delivery of a subscriber may have waited for one that is deleted, or be new.
UPDATE deliveries SET due_at = 0
WHERE state = 'waiting' AND due_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM deliveries e
    WHERE e.subscriber_id = deliveries.subscriber_id AND e.state = 'waiting' AND e.sequence < deliveries.sequence);

ALTER TABLE notifications DROP COLUMN expanded_at;
ALTER TABLE notifications DROP COLUMN expanded_to;
