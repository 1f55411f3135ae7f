-- What a team can store is bounded, and a query of one team reads few rows of it (docs/platform/reference-backend.md, "Bounds").

-- +goose Up
-- The open incidents of a team, and for each page whether one makes the page as bad as a status.
DROP INDEX incidents_open;
CREATE INDEX incidents_open ON incidents (team_id, status_page_id, is_maintenance, affects_page, impact, started_at)
WHERE status <> 'resolved';

CREATE INDEX audit_entries_by_action ON audit_entries (team_id, action_type, created_at DESC, id DESC);

-- A list without pages returns all rows, so their number and their texts are bounded when they are created.
-- +goose StatementBegin
CREATE TRIGGER servers_bound BEFORE INSERT ON servers
WHEN (SELECT count(*) FROM servers WHERE team_id = NEW.team_id) >= 1000
    OR length(CAST(NEW.name || NEW.host || NEW.os || NEW.tags AS BLOB)) > 4096
BEGIN SELECT RAISE(ABORT, 'a team has at most 1000 servers, with 4096 bytes of texts each'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER server_groups_bound BEFORE INSERT ON server_groups
WHEN (SELECT count(*) FROM server_groups WHERE team_id = NEW.team_id) >= 1000
    OR length(CAST(NEW.name || NEW.color AS BLOB)) > 4096
BEGIN SELECT RAISE(ABORT, 'a team has at most 1000 server groups, with 4096 bytes of texts each'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER scheduled_commands_bound BEFORE INSERT ON scheduled_commands
WHEN (SELECT count(*) FROM scheduled_commands WHERE team_id = NEW.team_id AND server_id = NEW.server_id) >= 1000
    OR length(CAST(NEW.name || NEW.command || NEW.cron AS BLOB)) > 4096
BEGIN SELECT RAISE(ABORT, 'a server has at most 1000 scheduled commands, with 4096 bytes of texts each'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER server_commands_bound BEFORE INSERT ON server_commands
WHEN length(CAST(NEW.command || NEW.source || NEW.status AS BLOB)) > 16384
BEGIN SELECT RAISE(ABORT, 'a command has at most 16384 bytes of texts'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER monitors_bound BEFORE INSERT ON monitors
WHEN (SELECT count(*) FROM monitors WHERE team_id = NEW.team_id) >= 1000
    OR length(CAST(NEW.name || NEW.type || NEW.target AS BLOB)) > 4096
BEGIN SELECT RAISE(ABORT, 'a team has at most 1000 monitors, with 4096 bytes of texts each'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER status_pages_bound BEFORE INSERT ON status_pages
WHEN (SELECT count(*) FROM status_pages WHERE team_id = NEW.team_id) >= 1000
    OR length(CAST(NEW.name || NEW.unique_hostname || NEW.slug || NEW.visibility || NEW.primary_color
        || coalesce(NEW.description, '') AS BLOB)) > 4096
BEGIN SELECT RAISE(ABORT, 'a team has at most 1000 status pages, with 4096 bytes of texts each'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER components_bound BEFORE INSERT ON components
WHEN (SELECT count(*) FROM components WHERE team_id = NEW.team_id) >= 5000
    OR length(CAST(NEW.name || coalesce(NEW.group_name, '') AS BLOB)) > 1024
BEGIN SELECT RAISE(ABORT, 'a team has at most 5000 components, with 1024 bytes of texts each'); END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER components_bound;
DROP TRIGGER status_pages_bound;
DROP TRIGGER monitors_bound;
DROP TRIGGER server_commands_bound;
DROP TRIGGER scheduled_commands_bound;
DROP TRIGGER server_groups_bound;
DROP TRIGGER servers_bound;
DROP INDEX audit_entries_by_action;
DROP INDEX incidents_open;
CREATE INDEX incidents_open ON incidents (team_id) WHERE status <> 'resolved';
