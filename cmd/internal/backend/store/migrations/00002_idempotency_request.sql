-- The type of the request of an idempotency key, so that an error can tell another operation from another body. Keys from before have none.

-- +goose Up
ALTER TABLE idempotency_keys ADD COLUMN request TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE idempotency_keys DROP COLUMN request;
