-- Who is known, and which of their credentials are still good.

-- name: find_person
-- Identities.person: whether they are known and active, their own roles, their groups (those given by the
-- identity provider included) and the roles of those.
WITH person AS (
    SELECT user_id, active, roles FROM users
     WHERE tenant_id = %(tenant_id)s
       AND CASE WHEN %(user_id)s::uuid IS NULL THEN lower(user_name) = lower(%(subject)s)
                ELSE user_id = %(user_id)s::uuid END
), member_of AS (
    SELECT g.display_name AS name
      FROM person
      JOIN group_members m ON m.tenant_id = %(tenant_id)s AND m.user_id = person.user_id
      JOIN groups g ON g.tenant_id = m.tenant_id AND g.group_id = m.group_id
     UNION
    SELECT unnest(%(groups)s::text[])
)
SELECT (SELECT active FROM person),
       coalesce((SELECT roles FROM person), '{}'),
       array(SELECT name FROM member_of),
       array(SELECT DISTINCT role FROM group_roles JOIN member_of ON group_name = name
              WHERE tenant_id = %(tenant_id)s)

-- name: find_password
-- Identities.password_of
SELECT user_id::text, user_name, password_hash FROM users
 WHERE tenant_id = %(tenant_id)s AND lower(user_name) = lower(%(user_name)s) AND active

-- name: open_session
-- Identities.open_session
WITH opened AS (
    INSERT INTO sessions (tenant_id, user_id, subject, roles, groups, scopes, expires_at)
    VALUES (%(tenant_id)s, %(user_id)s, %(subject)s, %(roles)s, %(groups)s, %(scopes)s,
            clock_timestamp() + make_interval(secs => %(seconds)s))
    RETURNING tenant_id, session_id
), given AS (
    INSERT INTO refresh_tokens (tenant_id, token_hash, session_id)
    SELECT tenant_id, %(token_hash)s, session_id FROM opened WHERE %(token_hash)s::bytea IS NOT NULL
)
SELECT session_id::text FROM opened

-- name: find_session
-- Identities.session
SELECT user_id::text, subject, roles, groups, scopes, extract(epoch FROM expires_at)::float8
  FROM sessions
 WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s
   AND revoked_at IS NULL AND expires_at > clock_timestamp()

-- name: rotate_refresh_token
-- Identities.rotate: nothing when the token is unknown, was used before, or its session has ended.
WITH used AS (
    UPDATE refresh_tokens t SET used_at = clock_timestamp()
      FROM sessions s
     WHERE t.tenant_id = %(tenant_id)s AND t.token_hash = %(token_hash)s AND t.used_at IS NULL
       AND s.tenant_id = t.tenant_id AND s.session_id = t.session_id
       AND s.revoked_at IS NULL AND s.expires_at > clock_timestamp()
    RETURNING t.tenant_id, t.session_id
), given AS (
    INSERT INTO refresh_tokens (tenant_id, token_hash, session_id)
    SELECT tenant_id, %(next_hash)s, session_id FROM used
)
SELECT session_id::text FROM used

-- name: revoke_family
-- Identities.rotate: a token that was used before came back, so its session ends.
UPDATE sessions s SET revoked_at = clock_timestamp()
  FROM refresh_tokens t
 WHERE t.tenant_id = %(tenant_id)s AND t.token_hash = %(token_hash)s AND t.used_at IS NOT NULL
   AND s.tenant_id = t.tenant_id AND s.session_id = t.session_id AND s.revoked_at IS NULL
RETURNING s.session_id::text

-- name: revoke_session
-- Identities.revoke_session
UPDATE sessions SET revoked_at = clock_timestamp()
 WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND revoked_at IS NULL

-- name: revoke_token
-- Identities.revoke_token
INSERT INTO revoked_tokens (tenant_id, credential_id, expires_at)
VALUES (%(tenant_id)s, %(credential_id)s, to_timestamp(%(expires)s)) ON CONFLICT DO NOTHING

-- name: is_revoked
-- Identities.is_revoked
SELECT EXISTS (SELECT FROM revoked_tokens WHERE tenant_id = %(tenant_id)s AND credential_id = %(credential_id)s)

-- name: count_attempt
-- LoginAttempts.count
INSERT INTO login_attempts AS a (tenant_id, bucket, attempts, started_at)
VALUES (%(tenant_id)s, %(bucket)s, 1, clock_timestamp())
ON CONFLICT (tenant_id, bucket) DO UPDATE
   SET attempts = CASE WHEN a.started_at < clock_timestamp() - make_interval(secs => %(seconds)s)
                       THEN 1 ELSE a.attempts + 1 END,
       started_at = CASE WHEN a.started_at < clock_timestamp() - make_interval(secs => %(seconds)s)
                         THEN clock_timestamp() ELSE a.started_at END
RETURNING attempts, extract(epoch FROM started_at - clock_timestamp())::float8 + %(seconds)s

-- name: forgive_attempt
-- LoginAttempts.forgive
UPDATE login_attempts SET attempts = CASE WHEN %(everything)s THEN 0 ELSE greatest(attempts - 1, 0) END
 WHERE tenant_id = %(tenant_id)s AND bucket = %(bucket)s

-- name: forget_identity
-- Identities, once an hour in every gateway: what can no longer be used.
SELECT forget_identity()
