-- Secrets: ciphertext only; the keys are elsewhere.

-- name: put_secret
-- Called by PostgresSecrets.
INSERT INTO secrets (tenant_id, owner, name, key_id, wrapped_key, ciphertext)
VALUES (%(tenant_id)s, %(owner)s, %(name)s, %(key_id)s, %(wrapped_key)s, %(ciphertext)s)
ON CONFLICT (tenant_id, owner, name) DO UPDATE SET key_id = excluded.key_id, wrapped_key = excluded.wrapped_key,
    ciphertext = excluded.ciphertext, updated_at = clock_timestamp()

-- name: put_secret_once
-- Called by PostgresSecrets.
INSERT INTO secrets (tenant_id, owner, name, key_id, wrapped_key, ciphertext)
VALUES (%(tenant_id)s, %(owner)s, %(name)s, %(key_id)s, %(wrapped_key)s, %(ciphertext)s)
ON CONFLICT DO NOTHING

-- name: get_secret
-- Called by PostgresSecrets.
SELECT key_id, wrapped_key, ciphertext FROM secrets
WHERE tenant_id = %(tenant_id)s AND owner = %(owner)s AND name = %(name)s

-- name: delete_secret
-- Called by PostgresSecrets.
DELETE FROM secrets WHERE tenant_id = %(tenant_id)s AND owner = %(owner)s AND name = %(name)s

-- name: read_wrapped_otherwise
-- Called by `lily secrets rotate`: the next data keys the current key does not wrap.
SELECT tenant_id, owner, name, key_id, wrapped_key FROM secrets
WHERE key_id <> %(current)s AND (tenant_id, owner, name) > (%(tenant_id)s, %(owner)s, %(name)s)
ORDER BY tenant_id, owner, name LIMIT %(most)s

-- name: rewrap
-- Called by `lily secrets rotate`; a secret that was replaced meanwhile is not touched.
UPDATE secrets SET key_id = %(key_id)s, wrapped_key = %(wrapped_key)s
WHERE tenant_id = %(tenant_id)s AND owner = %(owner)s AND name = %(name)s AND wrapped_key = %(was)s
