-- Classes of limits, which gateways name in their configuration, and tokens that expire.

-- +goose Up
-- That of tokens without one of their own; '' for none.
ALTER TABLE teams ADD COLUMN limit_class TEXT NOT NULL DEFAULT '';
ALTER TABLE api_tokens ADD COLUMN limit_class TEXT NOT NULL DEFAULT '';
ALTER TABLE api_tokens ADD COLUMN expires_at INTEGER;
CREATE INDEX api_tokens_by_expiry ON api_tokens (expires_at) WHERE expires_at IS NOT NULL;

-- +goose Down
DROP INDEX api_tokens_by_expiry;
ALTER TABLE api_tokens DROP COLUMN expires_at;
ALTER TABLE api_tokens DROP COLUMN limit_class;
ALTER TABLE teams DROP COLUMN limit_class;
