-- Who says it is well.

-- name: beat
-- Called by every process but the gateway, every few seconds.
INSERT INTO heartbeats (component, status, details) VALUES (%(component)s, %(status)s, %(details)s)
ON CONFLICT (component) DO UPDATE SET
    status = excluded.status, details = excluded.details, beat_at = clock_timestamp()
