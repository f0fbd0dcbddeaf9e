-- What was refused, for the operator.

-- name: list_dead_letters
-- Called by `lily dlq list`: the newest first.
SELECT seq, tenant_id, topic, "partition", "offset", event_id, reason, detail, refused_at, replayed_at
FROM dead_letters
WHERE (%(tenant)s = '' OR tenant_id = %(tenant)s) AND (%(reason)s = '' OR reason = %(reason)s)
  AND (%(all)s OR replayed_at IS NULL)
ORDER BY seq DESC LIMIT %(most)s

-- name: read_for_replay
-- Called by `lily dlq replay`: the oldest first, each with the record as it came.
SELECT seq, topic, key, payload, headers
FROM dead_letters
WHERE (%(tenant)s = '' OR tenant_id = %(tenant)s) AND (%(reason)s = '' OR reason = %(reason)s)
  AND replayed_at IS NULL AND seq > %(after)s
ORDER BY seq LIMIT %(most)s

-- name: mark_replayed
-- Called by `lily dlq replay` after the broker's acknowledgement.
UPDATE dead_letters SET replayed_at = clock_timestamp() WHERE seq = ANY(%(seqs)s)
