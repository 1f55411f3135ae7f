-- What operators need: a clock that runs ahead on purpose is told from one that was set forward by mistake.

-- +goose Up
-- Whether the clock of the rows runs ahead of the computer's, as that of opsdev does.
ALTER TABLE installation ADD COLUMN runs_ahead INTEGER NOT NULL DEFAULT 0 CHECK (runs_ahead IN (0, 1));

-- +goose Down
ALTER TABLE installation DROP COLUMN runs_ahead;
