-- The people and groups of a tenant, as SCIM sees them.

-- name: count_users
-- Directory.users
SELECT count(*) FROM users
 WHERE tenant_id = %(tenant_id)s
   AND (%(id)s::uuid IS NULL OR user_id = %(id)s::uuid)
   AND (%(name)s::text IS NULL OR lower(user_name) = lower(%(name)s::text))
   AND (%(external_id)s::text IS NULL OR external_id = %(external_id)s::text)

-- name: list_users
-- Directory.users: in the order they came.
SELECT u.user_id::text AS id, u.user_name, u.external_id, u.version, u.created_at, u.updated_at, u.active,
       u.document,
       coalesce((SELECT jsonb_agg(jsonb_build_array(g.group_id, g.display_name) ORDER BY g.display_name)
                   FROM group_members m JOIN groups g USING (tenant_id, group_id)
                  WHERE m.tenant_id = u.tenant_id AND m.user_id = u.user_id), '[]') AS groups
  FROM users u
 WHERE u.tenant_id = %(tenant_id)s
   AND (%(id)s::uuid IS NULL OR u.user_id = %(id)s::uuid)
   AND (%(name)s::text IS NULL OR lower(u.user_name) = lower(%(name)s::text))
   AND (%(external_id)s::text IS NULL OR u.external_id = %(external_id)s::text)
 ORDER BY u.created_at, u.user_id
OFFSET %(offset)s LIMIT %(limit)s

-- name: create_user
-- Directory.create_user
INSERT INTO users (tenant_id, user_name, external_id, active, roles, password_hash, document)
VALUES (%(tenant_id)s, %(name)s, %(external_id)s, %(active)s, %(roles)s, %(password_hash)s, %(document)s)
RETURNING user_id::text

-- name: update_user
-- Directory.update_user: nothing when it is no longer at that version.
UPDATE users
   SET user_name = %(name)s, external_id = %(external_id)s, active = %(active)s, document = %(document)s,
       password_hash = coalesce(%(password_hash)s, password_hash), version = version + 1,
       updated_at = clock_timestamp()
 WHERE tenant_id = %(tenant_id)s AND user_id = %(id)s AND version = %(version)s
RETURNING user_id::text

-- name: delete_user
-- Directory.delete_user
DELETE FROM users
 WHERE tenant_id = %(tenant_id)s AND user_id = %(id)s AND version = %(version)s RETURNING user_id::text

-- name: count_groups
-- Directory.groups
SELECT count(*) FROM groups
 WHERE tenant_id = %(tenant_id)s
   AND (%(id)s::uuid IS NULL OR group_id = %(id)s::uuid)
   AND (%(name)s::text IS NULL OR lower(display_name) = lower(%(name)s::text))
   AND (%(external_id)s::text IS NULL OR external_id = %(external_id)s::text)

-- name: list_groups
-- Directory.groups: in the order they came.
SELECT g.group_id::text AS id, g.display_name, g.external_id, g.version, g.created_at, g.updated_at,
       coalesce((SELECT jsonb_agg(jsonb_build_array(u.user_id, coalesce(m.display, u.user_name)) ORDER BY u.user_name)
                   FROM group_members m JOIN users u USING (tenant_id, user_id)
                  WHERE m.tenant_id = g.tenant_id AND m.group_id = g.group_id), '[]') AS members
  FROM groups g
 WHERE g.tenant_id = %(tenant_id)s
   AND (%(id)s::uuid IS NULL OR g.group_id = %(id)s::uuid)
   AND (%(name)s::text IS NULL OR lower(g.display_name) = lower(%(name)s::text))
   AND (%(external_id)s::text IS NULL OR g.external_id = %(external_id)s::text)
 ORDER BY g.created_at, g.group_id
OFFSET %(offset)s LIMIT %(limit)s

-- name: create_group
-- Directory.create_group
WITH made AS (
    INSERT INTO groups (tenant_id, display_name, external_id)
    VALUES (%(tenant_id)s, %(name)s, %(external_id)s) RETURNING tenant_id, group_id
), added AS (
    INSERT INTO group_members (tenant_id, group_id, user_id, display)
    SELECT made.tenant_id, group_id, member, nullif(said, user_name)
      FROM made CROSS JOIN unnest(%(members)s::uuid[], %(displays)s::text[]) AS named (member, said)
      LEFT JOIN users u ON u.tenant_id = made.tenant_id AND u.user_id = member
)
SELECT group_id::text FROM made

-- name: update_group
-- Directory.update_group: nothing when it is no longer at that version.
WITH changed AS (
    UPDATE groups
       SET display_name = %(name)s, external_id = %(external_id)s, version = version + 1,
           updated_at = clock_timestamp()
     WHERE tenant_id = %(tenant_id)s AND group_id = %(id)s AND version = %(version)s
    RETURNING tenant_id, group_id
), gone AS (
    DELETE FROM group_members m USING changed c
     WHERE m.tenant_id = c.tenant_id AND m.group_id = c.group_id AND m.user_id <> ALL (%(members)s::uuid[])
), added AS (
    INSERT INTO group_members AS m (tenant_id, group_id, user_id, display)
    SELECT changed.tenant_id, group_id, member, nullif(said, user_name)
      FROM changed CROSS JOIN unnest(%(members)s::uuid[], %(displays)s::text[]) AS named (member, said)
      LEFT JOIN users u ON u.tenant_id = changed.tenant_id AND u.user_id = member
        ON CONFLICT (tenant_id, group_id, user_id) DO UPDATE SET display = EXCLUDED.display
     WHERE m.display IS DISTINCT FROM EXCLUDED.display
)
SELECT group_id::text FROM changed

-- name: delete_group
-- Directory.delete_group
DELETE FROM groups
 WHERE tenant_id = %(tenant_id)s AND group_id = %(id)s AND version = %(version)s RETURNING group_id::text

-- name: list_people
-- Directory.people
SELECT u.user_name, u.roles,
       ARRAY(SELECT g.display_name FROM group_members AS m
               JOIN groups AS g ON g.tenant_id = m.tenant_id AND g.group_id = m.group_id
              WHERE m.tenant_id = u.tenant_id AND m.user_id = u.user_id)
  FROM users AS u WHERE u.tenant_id = %(tenant_id)s AND u.active ORDER BY u.user_name

-- name: list_group_roles
-- Directory.group_roles
SELECT group_name, array_agg(role ORDER BY role) FROM group_roles
 WHERE tenant_id = %(tenant_id)s GROUP BY group_name ORDER BY group_name

-- name: set_group_roles
-- Directory.set_group_roles: these and no others.
WITH gone AS (
    DELETE FROM group_roles
     WHERE tenant_id = %(tenant_id)s AND group_name = %(name)s AND role <> ALL (%(roles)s::text[])
)
INSERT INTO group_roles (tenant_id, group_name, role)
SELECT %(tenant_id)s, %(name)s, unnest(%(roles)s::text[]) ON CONFLICT DO NOTHING

-- name: set_user_roles
-- Directory.set_user_roles
UPDATE users SET roles = %(roles)s, version = version + 1, updated_at = clock_timestamp()
 WHERE tenant_id = %(tenant_id)s AND user_id = %(id)s RETURNING user_id::text
