-- All times are integer nanoseconds since 1970 in UTC. All ids are UUIDs in lower case.
--
-- Rows of a team have a team_id and refer to other rows of the team by (team_id, id), so the schema prevents references between
-- teams. The two large tables, metrics and checks, refer to the server or the monitor instead.

-- +goose Up
CREATE TABLE installation (
    -- Identifies the database in positions of the revocation stream.
    id TEXT NOT NULL PRIMARY KEY
) STRICT;

INSERT INTO installation (id) VALUES (lower(hex(randomblob(8))));

CREATE TABLE teams (
    id         TEXT    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL UNIQUE,
    plan       TEXT    NOT NULL CHECK (plan IN ('basic', 'ai')),
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE api_tokens (
    id         TEXT    NOT NULL PRIMARY KEY,
    team_id    TEXT    NOT NULL REFERENCES teams (id),
    name       TEXT    NOT NULL,
    -- SHA-256 of the token's full text. The text itself is not stored.
    sha256     BLOB    NOT NULL UNIQUE CHECK (length(sha256) = 32),
    -- JSON array of strings.
    scopes     TEXT    NOT NULL CHECK (json_valid(scopes)),
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;

CREATE INDEX api_tokens_by_team ON api_tokens (team_id, created_at, id);

CREATE TABLE revocations (
    -- Positions are unique, and committed in ascending order, because there is one writer at a time.
    position     INTEGER PRIMARY KEY AUTOINCREMENT,
    token_id     TEXT    NOT NULL REFERENCES api_tokens (id),
    token_sha256 BLOB    NOT NULL,
    revoked_at   INTEGER NOT NULL
) STRICT;

CREATE TABLE server_groups (
    id       TEXT    NOT NULL PRIMARY KEY,
    team_id  TEXT    NOT NULL REFERENCES teams (id),
    name     TEXT    NOT NULL,
    color    TEXT    NOT NULL,
    position INTEGER NOT NULL,
    UNIQUE (team_id, id)
) STRICT;

CREATE TABLE servers (
    id           TEXT    NOT NULL PRIMARY KEY,
    team_id      TEXT    NOT NULL REFERENCES teams (id),
    group_id     TEXT,
    name         TEXT    NOT NULL,
    host         TEXT    NOT NULL,
    os           TEXT    NOT NULL,
    -- JSON array of strings, in the team's order.
    tags         TEXT    NOT NULL CHECK (json_valid(tags)),
    last_seen_at INTEGER,
    created_at   INTEGER NOT NULL,
    UNIQUE (team_id, id),
    FOREIGN KEY (team_id, group_id) REFERENCES server_groups (team_id, id)
) STRICT;

CREATE INDEX servers_by_name ON servers (team_id, name, id);

CREATE TABLE server_metrics (
    server_id     TEXT    NOT NULL REFERENCES servers (id),
    at            INTEGER NOT NULL,
    cpu_percent   REAL    NOT NULL,
    ram_used_mb   REAL    NOT NULL,
    ram_total_mb  REAL    NOT NULL,
    disk_used_gb  REAL    NOT NULL,
    disk_total_gb REAL    NOT NULL,
    PRIMARY KEY (server_id, at)
) STRICT, WITHOUT ROWID;

CREATE TABLE scheduled_commands (
    id                   TEXT    NOT NULL PRIMARY KEY,
    team_id              TEXT    NOT NULL,
    server_id            TEXT    NOT NULL,
    name                 TEXT    NOT NULL,
    command              TEXT    NOT NULL,
    cron                 TEXT    NOT NULL,
    enabled              INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    last_run_at          INTEGER,
    last_exit_code       INTEGER,
    consecutive_failures INTEGER NOT NULL,
    FOREIGN KEY (team_id, server_id) REFERENCES servers (team_id, id)
) STRICT;

CREATE INDEX scheduled_commands_by_name ON scheduled_commands (team_id, server_id, name, id);

CREATE TABLE server_commands (
    id          TEXT    NOT NULL PRIMARY KEY,
    team_id     TEXT    NOT NULL,
    server_id   TEXT    NOT NULL,
    command     TEXT    NOT NULL,
    source      TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    exit_code   INTEGER,
    duration_ms INTEGER,
    started_at  INTEGER,
    finished_at INTEGER,
    created_at  INTEGER NOT NULL,
    FOREIGN KEY (team_id, server_id) REFERENCES servers (team_id, id)
) STRICT;

CREATE INDEX server_commands_by_time ON server_commands (team_id, server_id, created_at DESC, id DESC);

CREATE TABLE monitors (
    id                    TEXT    NOT NULL PRIMARY KEY,
    team_id               TEXT    NOT NULL REFERENCES teams (id),
    name                  TEXT    NOT NULL,
    type                  TEXT    NOT NULL,
    target                TEXT    NOT NULL,
    status                TEXT    NOT NULL CHECK (status IN ('up', 'degraded', 'down')),
    enabled               INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    interval_seconds      INTEGER NOT NULL,
    last_check_at         INTEGER,
    last_status_change_at INTEGER,
    UNIQUE (team_id, id)
) STRICT;

CREATE INDEX monitors_by_name ON monitors (team_id, name, id);

CREATE TABLE monitor_checks (
    monitor_id TEXT    NOT NULL REFERENCES monitors (id),
    checked_at INTEGER NOT NULL,
    status     TEXT    NOT NULL CHECK (status IN ('up', 'degraded', 'down')),
    latency_ms INTEGER NOT NULL,
    PRIMARY KEY (monitor_id, checked_at)
) STRICT, WITHOUT ROWID;

CREATE TABLE status_pages (
    id              TEXT    NOT NULL PRIMARY KEY,
    team_id         TEXT    NOT NULL REFERENCES teams (id),
    name            TEXT    NOT NULL,
    unique_hostname TEXT    NOT NULL UNIQUE,
    slug            TEXT    NOT NULL,
    visibility      TEXT    NOT NULL,
    primary_color   TEXT    NOT NULL,
    description     TEXT,
    suspended       INTEGER NOT NULL CHECK (suspended IN (0, 1)),
    created_at      INTEGER NOT NULL,
    UNIQUE (team_id, id)
) STRICT;

CREATE TABLE components (
    id             TEXT    NOT NULL PRIMARY KEY,
    team_id        TEXT    NOT NULL,
    status_page_id TEXT    NOT NULL,
    -- Not used while the component is linked to a monitor.
    monitor_id     TEXT,
    name           TEXT    NOT NULL,
    group_name     TEXT,
    position       INTEGER NOT NULL,
    status         TEXT    NOT NULL CHECK (status IN ('operational', 'degraded', 'outage', 'maintenance')),
    UNIQUE (team_id, id),
    FOREIGN KEY (team_id, status_page_id) REFERENCES status_pages (team_id, id),
    FOREIGN KEY (team_id, monitor_id) REFERENCES monitors (team_id, id)
) STRICT;

CREATE INDEX components_by_page ON components (team_id, status_page_id, position, id);

CREATE TABLE incidents (
    id             TEXT    NOT NULL PRIMARY KEY,
    team_id        TEXT    NOT NULL REFERENCES teams (id),
    status_page_id TEXT,
    title          TEXT    NOT NULL,
    status         TEXT    NOT NULL CHECK (status IN ('investigating', 'identified', 'monitoring', 'resolved')),
    impact         TEXT    NOT NULL CHECK (impact IN ('none', 'minor', 'major', 'critical')),
    is_maintenance INTEGER NOT NULL CHECK (is_maintenance IN (0, 1)),
    started_at     INTEGER NOT NULL,
    resolved_at    INTEGER,
    created_at     INTEGER NOT NULL,
    UNIQUE (team_id, id),
    FOREIGN KEY (team_id, status_page_id) REFERENCES status_pages (team_id, id),
    CHECK ((status = 'resolved') = (resolved_at IS NOT NULL))
) STRICT;

CREATE INDEX incidents_by_time ON incidents (team_id, created_at DESC, id DESC);
CREATE INDEX incidents_by_page ON incidents (team_id, status_page_id, created_at DESC, id DESC);

CREATE TABLE incident_updates (
    id          TEXT    NOT NULL PRIMARY KEY,
    team_id     TEXT    NOT NULL,
    incident_id TEXT    NOT NULL,
    status      TEXT    NOT NULL CHECK (status IN ('investigating', 'identified', 'monitoring', 'resolved')),
    message     TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    UNIQUE (team_id, id),
    FOREIGN KEY (team_id, incident_id) REFERENCES incidents (team_id, id)
) STRICT;

CREATE INDEX incident_updates_by_time ON incident_updates (team_id, incident_id, created_at, id);

CREATE TABLE incident_components (
    team_id      TEXT NOT NULL,
    incident_id  TEXT NOT NULL,
    component_id TEXT NOT NULL,
    PRIMARY KEY (team_id, incident_id, component_id),
    FOREIGN KEY (team_id, incident_id) REFERENCES incidents (team_id, id),
    FOREIGN KEY (team_id, component_id) REFERENCES components (team_id, id)
) STRICT, WITHOUT ROWID;

-- The outbox: notifications to the subscribers of a page, sent or suppressed.
CREATE TABLE notifications (
    id             TEXT    NOT NULL PRIMARY KEY,
    team_id        TEXT    NOT NULL,
    status_page_id TEXT    NOT NULL,
    incident_id    TEXT    NOT NULL,
    update_id      TEXT    NOT NULL,
    event          TEXT    NOT NULL CHECK (event IN ('incident.created', 'incident.update_posted')),
    suppressed     INTEGER NOT NULL CHECK (suppressed IN (0, 1)),
    created_at     INTEGER NOT NULL,
    FOREIGN KEY (team_id, status_page_id) REFERENCES status_pages (team_id, id),
    FOREIGN KEY (team_id, incident_id) REFERENCES incidents (team_id, id),
    FOREIGN KEY (team_id, update_id) REFERENCES incident_updates (team_id, id)
) STRICT;

CREATE INDEX notifications_by_time ON notifications (team_id, created_at, id);

CREATE TABLE idempotency_keys (
    team_id     TEXT    NOT NULL REFERENCES teams (id),
    key         TEXT    NOT NULL,
    -- SHA-256 over the method and the normalised request.
    fingerprint BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    -- The response, as a protobuf message.
    response    BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (team_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_keys_by_time ON idempotency_keys (team_id, created_at);

CREATE TABLE audit_entries (
    id            TEXT    NOT NULL PRIMARY KEY,
    team_id       TEXT    NOT NULL REFERENCES teams (id),
    action_type   TEXT    NOT NULL,
    resource_type TEXT    NOT NULL,
    resource_id   TEXT    NOT NULL,
    actor_id      TEXT    NOT NULL,
    ip_address    TEXT    NOT NULL,
    request_id    TEXT    NOT NULL,
    created_at    INTEGER NOT NULL
) STRICT;

CREATE INDEX audit_entries_by_time ON audit_entries (team_id, created_at DESC, id DESC);

-- +goose Down
DROP TABLE audit_entries;
DROP TABLE idempotency_keys;
DROP TABLE notifications;
DROP TABLE incident_components;
DROP TABLE incident_updates;
DROP TABLE incidents;
DROP TABLE components;
DROP TABLE status_pages;
DROP TABLE monitor_checks;
DROP TABLE monitors;
DROP TABLE server_commands;
DROP TABLE scheduled_commands;
DROP TABLE server_metrics;
DROP TABLE servers;
DROP TABLE server_groups;
DROP TABLE revocations;
DROP TABLE api_tokens;
DROP TABLE teams;
DROP TABLE installation;
