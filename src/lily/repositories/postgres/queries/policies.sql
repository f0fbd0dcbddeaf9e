-- Policies, roles and scraper policies.

-- name: load_rules
-- PostgresRules.load: everything at once, as it is at one moment.
SELECT
    (SELECT coalesce(json_agg(json_build_array(p.policy_id, p.user_id, p.role, p.group_name, p.access_type,
                                               p.effect, p.scope, p.value, p.conditions)), '[]')
       FROM policies p WHERE p.tenant_id = %(tenant_id)s) AS policies,
    (SELECT coalesce(json_agg(json_build_array(r.role, r.includes)), '[]')
       FROM roles r WHERE r.tenant_id = %(tenant_id)s) AS roles,
    (SELECT coalesce(json_agg(json_build_array(m.role, m.kind, m.member)), '[]')
       FROM role_members m WHERE m.tenant_id = %(tenant_id)s) AS members,
    (SELECT coalesce(json_agg(json_build_array(s.scraper_group, s.allowed_columns)), '[]')
       FROM scraper_policies s WHERE s.tenant_id = %(tenant_id)s) AS scraper_policies

-- name: insert_policy
-- PostgresPolicies.add.
INSERT INTO policies (tenant_id, policy_id, user_id, role, group_name, access_type, effect, scope, value,
                      conditions, created_by)
VALUES (%(tenant_id)s, %(policy_id)s, %(user_id)s, %(role)s, %(group_name)s, %(access_type)s, %(effect)s,
        %(scope)s, %(value)s, %(conditions)s::jsonb, %(actor)s)
RETURNING policy_id::text, user_id, role, group_name, access_type, effect, scope, value, conditions, created_by,
          created_at, updated_at

-- name: update_policy
-- PostgresPolicies.replace.
UPDATE policies
   SET user_id = %(user_id)s, role = %(role)s, group_name = %(group_name)s, access_type = %(access_type)s,
       effect = %(effect)s, scope = %(scope)s, value = %(value)s, conditions = %(conditions)s::jsonb,
       updated_at = clock_timestamp()
 WHERE tenant_id = %(tenant_id)s AND policy_id = %(policy_id)s
RETURNING policy_id::text, user_id, role, group_name, access_type, effect, scope, value, conditions, created_by,
          created_at, updated_at

-- name: delete_policy
-- PostgresPolicies.remove.
DELETE FROM policies WHERE tenant_id = %(tenant_id)s AND policy_id = %(policy_id)s RETURNING 1

-- name: list_policies
-- PostgresPolicies.list and .find: in the order of their ids, after the given one; or those with given ids.
SELECT policy_id::text, user_id, role, group_name, access_type, effect, scope, value, conditions, created_by,
       created_at, updated_at
  FROM policies
 WHERE tenant_id = %(tenant_id)s
   AND (%(after)s::uuid IS NULL OR policy_id > %(after)s::uuid)
   AND (%(ids)s::uuid[] IS NULL OR policy_id = ANY(%(ids)s::uuid[]))
 ORDER BY policy_id
 LIMIT %(limit)s

-- name: list_roles
-- PostgresRoles.list.
SELECT r.role, r.description, r.includes,
       ARRAY(SELECT m.member FROM role_members m
              WHERE m.tenant_id = r.tenant_id AND m.role = r.role AND m.kind = 'user' ORDER BY 1) AS users,
       ARRAY(SELECT m.member FROM role_members m
              WHERE m.tenant_id = r.tenant_id AND m.role = r.role AND m.kind = 'group' ORDER BY 1) AS groups,
       r.created_at, r.updated_at
  FROM roles r
 WHERE r.tenant_id = %(tenant_id)s AND (%(role)s::text IS NULL OR r.role = %(role)s::text)
 ORDER BY r.role

-- name: put_role
-- PostgresRoles.put, with its members in one statement.
WITH put AS (
    INSERT INTO roles (tenant_id, role, description, includes)
    VALUES (%(tenant_id)s, %(role)s, %(description)s, %(includes)s)
    ON CONFLICT (tenant_id, role) DO UPDATE
       SET description = EXCLUDED.description, includes = EXCLUDED.includes, updated_at = clock_timestamp()
    RETURNING tenant_id, role
), wanted AS (
    SELECT 'user' AS kind, member FROM unnest(%(users)s::text[]) AS member
     UNION ALL
    SELECT 'group', member FROM unnest(%(groups)s::text[]) AS member
), gone AS (
    DELETE FROM role_members m USING put
     WHERE m.tenant_id = put.tenant_id AND m.role = put.role
       AND NOT EXISTS (SELECT FROM wanted w WHERE w.kind = m.kind AND w.member = m.member)
)
INSERT INTO role_members (tenant_id, role, kind, member)
SELECT put.tenant_id, put.role, wanted.kind, wanted.member FROM put, wanted
ON CONFLICT DO NOTHING

-- name: delete_role
-- PostgresRoles.remove.
DELETE FROM roles WHERE tenant_id = %(tenant_id)s AND role = %(role)s RETURNING 1

-- name: list_scraper_policies
-- PostgresScraperPolicies.list.
SELECT policy_id::text, scraper_group, allowed_columns, created_at, updated_at
  FROM scraper_policies
 WHERE tenant_id = %(tenant_id)s AND (%(scraper_group)s::text IS NULL OR scraper_group = %(scraper_group)s::text)
 ORDER BY scraper_group

-- name: put_scraper_policy
-- PostgresScraperPolicies.put.
INSERT INTO scraper_policies (tenant_id, scraper_group, allowed_columns)
VALUES (%(tenant_id)s, %(scraper_group)s, %(allowed_columns)s)
ON CONFLICT (tenant_id, scraper_group) DO UPDATE
   SET allowed_columns = EXCLUDED.allowed_columns, updated_at = clock_timestamp()

-- name: delete_scraper_policy
-- PostgresScraperPolicies.remove.
DELETE FROM scraper_policies WHERE tenant_id = %(tenant_id)s AND scraper_group = %(scraper_group)s RETURNING 1
