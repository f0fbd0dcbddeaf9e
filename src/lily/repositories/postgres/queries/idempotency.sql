-- The first request of every idempotency key.

-- name: remember_key
-- IdempotencyKeys.claim: true when this is the first request with the key.
INSERT INTO idempotency_keys (tenant_id, actor, key, request_hash, event_id)
VALUES (%(tenant_id)s, %(actor)s, %(key)s, %(request_hash)s, %(event_id)s)
ON CONFLICT DO NOTHING

-- name: find_key
-- IdempotencyKeys.claim: what the first request with the key asked for.
SELECT request_hash FROM idempotency_keys
 WHERE tenant_id = %(tenant_id)s AND actor = %(actor)s AND key = %(key)s

-- name: lock_key
-- IdempotencyKeys.claim: false when another process is answering a request with this key.
SELECT pg_try_advisory_lock(%(lock)s)

-- name: unlock_key
-- IdempotencyKeys.claim
SELECT pg_advisory_unlock(%(lock)s)

-- name: forget_keys
-- IdempotencyKeys, once an hour in every gateway.
SELECT forget_idempotency_keys(%(hours)s)
