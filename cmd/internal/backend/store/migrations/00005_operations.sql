-- What operators need: a clock that runs ahead on purpose is told from one that was set forward by mistake, and mailboxes that do not exist
-- are not sent to for ever.

-- +goose Up
-- Whether the clock of the rows runs ahead of the computer's, as that of opsdev does.
ALTER TABLE installation ADD COLUMN runs_ahead INTEGER NOT NULL DEFAULT 0 CHECK (runs_ahead IN (0, 1));

-- Hard bounces since the last message that was accepted. At three, the subscriber is stopped, with a note.
ALTER TABLE subscribers ADD COLUMN bounces INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscribers ADD COLUMN stopped_at INTEGER;
ALTER TABLE subscribers ADD COLUMN note TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE subscribers DROP COLUMN note;
ALTER TABLE subscribers DROP COLUMN stopped_at;
ALTER TABLE subscribers DROP COLUMN bounces;
ALTER TABLE installation DROP COLUMN runs_ahead;
