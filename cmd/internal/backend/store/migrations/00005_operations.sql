-- Marks databases whose clock runs ahead on purpose, and stops subscribers whose mailbox does not exist.

-- +goose Up
-- Whether the clock of the rows runs ahead of the computer's, as that of opsdev does.
ALTER TABLE installation ADD COLUMN runs_ahead INTEGER NOT NULL DEFAULT 0 CHECK (runs_ahead IN (0, 1));

-- Hard bounces since the last message that was accepted. At three, the subscriber is stopped, with a note.
ALTER TABLE subscribers ADD COLUMN bounces INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscribers ADD COLUMN stopped_at INTEGER;
ALTER TABLE subscribers ADD COLUMN note TEXT NOT NULL DEFAULT '';

-- A page has each address once, in the form that new ones are stored in: emails, and schemes and hosts of URLs in lower case, without the
-- default port. Of several subscribers with one address, the page keeps the first that is confirmed.
CREATE TABLE normalised AS
WITH parts AS (
    SELECT id, address, instr(address, '://') + 2 AS scheme,
        min(instr(substr(address, instr(address, '://') + 3) || '/', '/'),
            instr(substr(address, instr(address, '://') + 3) || '?', '?')) - 1 AS host
    FROM subscribers WHERE channel = 'webhook'
), split AS (
    SELECT id, lower(substr(address, 1, scheme)) AS scheme, lower(substr(address, scheme + 1, host)) AS host,
        substr(address, scheme + 1 + host) AS path
    FROM parts
)
SELECT id, scheme || CASE
    WHEN scheme = 'https://' AND host LIKE '%:443' THEN substr(host, 1, length(host) - 4)
    WHEN scheme = 'http://' AND host LIKE '%:80' THEN substr(host, 1, length(host) - 3)
    ELSE host END || path AS address FROM split
UNION ALL
SELECT id, lower(address) FROM subscribers WHERE channel = 'email';

DELETE FROM subscribers WHERE id IN (
    SELECT id FROM (
        SELECT s.id, row_number() OVER (
            PARTITION BY s.status_page_id, s.channel, n.address ORDER BY s.confirmed_at IS NULL, s.confirmed_at, s.created_at, s.id) AS number
        FROM subscribers s JOIN normalised n ON n.id = s.id)
    WHERE number > 1);
UPDATE subscribers SET address = (SELECT n.address FROM normalised n WHERE n.id = subscribers.id);
DROP TABLE normalised;

-- +goose Down
ALTER TABLE subscribers DROP COLUMN note;
ALTER TABLE subscribers DROP COLUMN stopped_at;
ALTER TABLE subscribers DROP COLUMN bounces;
ALTER TABLE installation DROP COLUMN runs_ahead;
