-- Keys of machines.

-- name: create_key
-- ApiKeys.create: nothing when a key of that name is in use.
INSERT INTO api_keys (tenant_id, name, owner, secret_hash, roles, scopes, expires_at, owner_roles, owner_groups,
                      vouched_roles)
VALUES (%(tenant_id)s, %(name)s, %(owner)s, %(secret_hash)s, %(roles)s, %(scopes)s,
        clock_timestamp() + make_interval(secs => %(seconds)s), %(owner_roles)s, %(owner_groups)s,
        %(vouched_roles)s)
ON CONFLICT DO NOTHING
RETURNING key_id::text, name, owner, roles, scopes, created_at, expires_at, last_used_at, revoked_at

-- name: use_key
-- ApiKeys.use: the key with this secret, if it is still good; notes that it was used.
UPDATE api_keys SET last_used_at = clock_timestamp()
 WHERE tenant_id = %(tenant_id)s AND key_id = %(key_id)s AND secret_hash = %(secret_hash)s
   AND revoked_at IS NULL AND expires_at > clock_timestamp()
RETURNING name, owner, roles, scopes, extract(epoch FROM expires_at)::float8, owner_roles, owner_groups,
          vouched_roles

-- name: list_keys
-- ApiKeys.list: newest first; `owner` NULL lists everybody's.
SELECT key_id::text, name, owner, roles, scopes, created_at, expires_at, last_used_at, revoked_at
  FROM api_keys
 WHERE tenant_id = %(tenant_id)s AND (%(owner)s::text IS NULL OR lower(owner) = lower(%(owner)s::text))
 ORDER BY created_at DESC, key_id
 LIMIT 1000

-- name: find_key
-- ApiKeys.find
SELECT key_id::text, name, owner, roles, scopes, created_at, expires_at, last_used_at, revoked_at
  FROM api_keys WHERE tenant_id = %(tenant_id)s AND key_id = %(key_id)s

-- name: revoke_key
-- ApiKeys.revoke
UPDATE api_keys SET revoked_at = clock_timestamp()
 WHERE tenant_id = %(tenant_id)s AND key_id = %(key_id)s AND revoked_at IS NULL
