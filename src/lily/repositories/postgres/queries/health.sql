-- What the platform says about itself.

-- name: list_heartbeats
-- PlatformHealth
SELECT component, status, details, extract(epoch FROM clock_timestamp() - beat_at)::float8 FROM heartbeats

-- name: list_stream_positions
-- PlatformHealth
SELECT query, offsets, event_time, applied_at FROM stream_positions
