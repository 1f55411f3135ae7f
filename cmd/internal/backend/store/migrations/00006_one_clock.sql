-- No database has a clock that runs ahead on purpose.

-- +goose Up
ALTER TABLE installation DROP COLUMN runs_ahead;

-- +goose Down
ALTER TABLE installation ADD COLUMN runs_ahead INTEGER NOT NULL DEFAULT 0 CHECK (runs_ahead IN (0, 1));
