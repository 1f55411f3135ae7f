-- What operations and failing monitors cause: deliveries to subscribers, the outages of monitors, and hourly means of metrics.

-- +goose Up
CREATE TABLE subscribers (
    id                    TEXT    NOT NULL PRIMARY KEY,
    team_id               TEXT    NOT NULL,
    status_page_id        TEXT    NOT NULL,
    channel               TEXT    NOT NULL CHECK (channel IN ('email', 'webhook')),
    -- An email address or a URL.
    address               TEXT    NOT NULL,
    -- Names the subscriber in the links of emails, which confirm and end the subscription without a login.
    link_token            TEXT    NOT NULL UNIQUE,
    -- Webhooks only: the key of the signatures, and until previous_secret_until also the key before it.
    secret                BLOB,
    previous_secret       BLOB,
    previous_secret_until INTEGER,
    created_at            INTEGER NOT NULL,
    -- Only confirmed subscribers are notified.
    confirmed_at          INTEGER,
    UNIQUE (status_page_id, channel, address),
    FOREIGN KEY (team_id, status_page_id) REFERENCES status_pages (team_id, id)
) STRICT;

CREATE INDEX subscribers_by_page ON subscribers (status_page_id, id);
-- For the hourly maintenance: subscriptions that were not confirmed in time, and secrets that are not used any more.
CREATE INDEX subscribers_unconfirmed ON subscribers (created_at) WHERE confirmed_at IS NULL;
CREATE INDEX subscribers_rotated ON subscribers (previous_secret_until) WHERE previous_secret_until IS NOT NULL;

-- A notification is expanded into one delivery for each confirmed subscriber of its page, in batches in the order of the subscribers' ids.
ALTER TABLE notifications ADD COLUMN expanded_to TEXT NOT NULL DEFAULT '';
ALTER TABLE notifications ADD COLUMN expanded_at INTEGER;
-- The W3C trace context of the request that caused the notification; empty for none.
ALTER TABLE notifications ADD COLUMN traceparent TEXT NOT NULL DEFAULT '';
-- Notifications from before deliveries existed are not sent late.
UPDATE notifications SET expanded_at = created_at;

CREATE INDEX notifications_waiting ON notifications (created_at, id) WHERE expanded_at IS NULL AND suppressed = 0;

CREATE TABLE deliveries (
    -- A subscriber gets its messages in this order.
    sequence        INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The message id: the same at each attempt, so that receivers can drop repeats.
    id              TEXT    NOT NULL UNIQUE,
    subscriber_id   TEXT    NOT NULL REFERENCES subscribers (id) ON DELETE CASCADE,
    channel         TEXT    NOT NULL CHECK (channel IN ('email', 'webhook')),
    -- The host and port of a webhook, to bound the concurrent requests to one receiver. Empty for email.
    receiver        TEXT    NOT NULL DEFAULT '',
    -- NULL for the request to confirm a subscription.
    notification_id TEXT    REFERENCES notifications (id),
    state           TEXT    NOT NULL CHECK (state IN ('waiting', 'delivered', 'dead')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    -- Time of the next attempt. NULL while an earlier message of the subscriber waits, and after the last attempt.
    due_at          INTEGER,
    created_at      INTEGER NOT NULL,
    finished_at     INTEGER,
    -- Why the last attempt failed.
    last_error      TEXT    NOT NULL DEFAULT '',
    UNIQUE (notification_id, subscriber_id)
) STRICT;

-- First attempts and further attempts are separate ranges, because receivers that fail must not delay others.
CREATE INDEX deliveries_due ON deliveries (channel, attempts > 0, due_at, receiver) WHERE due_at IS NOT NULL;
-- Finds the first waiting delivery of a subscriber, and all its deliveries when it is deleted.
CREATE INDEX deliveries_by_subscriber ON deliveries (subscriber_id, state, sequence);
CREATE INDEX deliveries_waiting ON deliveries (channel, created_at) WHERE state = 'waiting';
CREATE INDEX deliveries_finished ON deliveries (state, finished_at) WHERE state <> 'waiting';

-- Whether an outage of the monitor opens an incident.
ALTER TABLE monitors ADD COLUMN opens_incidents INTEGER NOT NULL DEFAULT 0 CHECK (opens_incidents IN (0, 1));
-- The number of consecutive checks up to the last one that failed or succeeded; one of them is 0.
ALTER TABLE monitors ADD COLUMN failed_checks INTEGER NOT NULL DEFAULT 0;
ALTER TABLE monitors ADD COLUMN good_checks INTEGER NOT NULL DEFAULT 0;
-- The incident of the outage in progress.
ALTER TABLE monitors ADD COLUMN incident_id TEXT REFERENCES incidents (id);

-- Whether the status of its page follows the incident while it is open. Incidents from before do not change the status of their pages late.
ALTER TABLE incidents ADD COLUMN affects_page INTEGER NOT NULL DEFAULT 0 CHECK (affects_page IN (0, 1));

CREATE INDEX incidents_open ON incidents (team_id) WHERE status <> 'resolved';

-- The means of the raw points of each complete hour. They replace the raw points, which are deleted later.
CREATE TABLE server_metric_hours (
    server_id     TEXT    NOT NULL REFERENCES servers (id),
    -- The start of the hour.
    at            INTEGER NOT NULL,
    cpu_percent   REAL    NOT NULL,
    ram_used_mb   REAL    NOT NULL,
    ram_total_mb  REAL    NOT NULL,
    disk_used_gb  REAL    NOT NULL,
    disk_total_gb REAL    NOT NULL,
    PRIMARY KEY (server_id, at)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE server_metric_hours;
DROP INDEX incidents_open;
ALTER TABLE incidents DROP COLUMN affects_page;
ALTER TABLE monitors DROP COLUMN incident_id;
ALTER TABLE monitors DROP COLUMN good_checks;
ALTER TABLE monitors DROP COLUMN failed_checks;
ALTER TABLE monitors DROP COLUMN opens_incidents;
DROP TABLE deliveries;
DROP INDEX notifications_waiting;
ALTER TABLE notifications DROP COLUMN traceparent;
ALTER TABLE notifications DROP COLUMN expanded_at;
ALTER TABLE notifications DROP COLUMN expanded_to;
DROP TABLE subscribers;
