-- What the enforcer asks the catalog of a target database, a PostgreSQL of somebody else. Every session has
-- `search_path = pg_catalog`, so that names of types and expressions come out qualified.
-- Rights are lists of [grantor, grantee, [rights, with * when they may be passed on]]; the grantee 0 is PUBLIC.

-- name: read_relations
-- Workshop.plan: these relations (all without names), everything they are part of and their parts. What is told of
-- each is asked for one by one, so that it costs nothing for the others. `takes_no_view`: a view
-- would show everybody what only some may see, or there is no schema of Lily's for it.
WITH RECURSIVE schemas AS MATERIALIZED (
    SELECT n.oid, n.nspname, s.oid AS shadow
      FROM pg_namespace n
      LEFT JOIN pg_namespace s ON s.nspname = lily_protection.shadow(n.nspname) AND lily_protection.is_ours(s.nspname)
     WHERE NOT lily_protection.is_ours(n.nspname)
), named AS MATERIALIZED (
    SELECT * FROM unnest(%(schemas)s::name[], %(names)s::name[]) AS asked (schema_name, relation_name)
), wanted AS (
    SELECT c.oid FROM pg_class c JOIN schemas n ON n.oid = c.relnamespace
     WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
       AND (%(is_whole)s OR (n.nspname, c.relname) IN (SELECT schema_name, relation_name FROM named)
            OR %(with_protected)s AND c.oid IN (SELECT r.relation FROM lily_protection.related() AS r)
            OR c.oid IN (SELECT s.relation FROM lily_protection.stripped s)
            OR c.oid IN (SELECT p.relation FROM lily_protection.places() AS p
                           JOIN named ON (named.schema_name, named.relation_name) = (p.schema_name, p.relation_name)))
), family AS (
    SELECT oid AS relative FROM wanted
     UNION
    SELECT r.relative FROM family f CROSS JOIN LATERAL (
           SELECT i.inhparent AS relative FROM pg_inherits i WHERE i.inhrelid = f.relative
            UNION ALL SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = f.relative) r
), found AS MATERIALIZED (
    SELECT c.oid, n.nspname, c.relname, c.relkind, c.relowner, n.shadow,
           c.relrowsecurity OR n.shadow IS NULL OR c.relkind = 'f'
           OR coalesce(c.reloptions && '{security_invoker=true,security_invoker=on,security_invoker=1}', false)
           AS takes_no_view
      FROM family f JOIN pg_class c ON c.oid = f.relative JOIN schemas n ON n.oid = c.relnamespace
     WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
)
SELECT c.oid::bigint, c.nspname, c.relname, c.relkind::text, c.relowner::bigint, c.takes_no_view,
       (SELECT coalesce(json_agg(json_build_array(
                   a.attnum, a.attname,
                   CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod)
                        ELSE format_type(a.atttypid, a.atttypmod) END,
                   CASE WHEN a.attcollation NOT IN (0, t.typcollation) THEN (
                        SELECT json_build_array(cn.nspname, co.collname) FROM pg_collation co
                          JOIN pg_namespace cn ON cn.oid = co.collnamespace WHERE co.oid = a.attcollation) END,
                   CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END,
                   a.attidentity <> '' OR a.attgenerated <> '') ORDER BY a.attnum), '[]')
          FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
          LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
       ARRAY(SELECT a.attname FROM pg_index x
               JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = ANY (x.indkey)
              WHERE x.indrelid = c.oid AND x.indisprimary ORDER BY a.attnum)::text[],
       ARRAY(SELECT i.inhparent::bigint FROM pg_inherits i WHERE i.inhrelid = c.oid
              UNION ALL SELECT i.inhrelid::bigint FROM pg_inherits i WHERE i.inhparent = c.oid),
       lily_protection.rights_of(c.oid),
       (SELECT json_build_array((SELECT json_agg(json_build_array(p.schema_name, p.relation_name))
                                   FROM lily_protection.places() AS p WHERE p.relation = o.relation),
                                o.shield, o.rights, o.enforced, o.fingerprint)
          FROM lily_protection.originals o WHERE o.relation = c.oid),
       (SELECT json_build_array(
                   lily_protection.print_of(v.oid),
                   (SELECT json_agg(json_build_array(a.attname, format_type(a.atttypid, a.atttypmod)) ORDER BY a.attnum)
                      FROM pg_attribute a WHERE a.attrelid = v.oid AND a.attnum > 0),
                   lily_protection.is_used(v.oid), pg_get_viewdef(v.oid))
          FROM pg_class v WHERE v.relnamespace = c.shadow AND v.relname = c.relname AND v.relkind = 'v'),
       (SELECT s.rights FROM lily_protection.stripped s WHERE s.relation = c.oid),
       (SELECT coalesce(json_agg(json_build_array(s.schema_name, s.view_name, s.is_used)
                                 ORDER BY s.schema_name, s.view_name), '[]')
          FROM lily_protection.strays(c.oid) AS s WHERE NOT (s.is_used AND s.is_secluded))
  FROM found c
 ORDER BY c.nspname, c.relname

-- name: read_rights
-- Workshop.apply: the rights on a relation as they are, those the guard took away, and what its names mean.
SELECT lily_protection.rights_of(c.oid), (SELECT s.rights FROM lily_protection.stripped s WHERE s.relation = c.oid),
       n.nspname, c.relname, c.relowner::bigint,
       (SELECT coalesce(json_object_agg(a.attnum, a.attname), '{}') FROM pg_attribute a
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %(relation)s::bigint::oid

-- name: read_trace
-- Workshop.trace: changes whenever a row of the catalog about a protected relation or a masking view does, or one
-- comes or goes, whenever a role does or becomes another's member, and whenever a relation gets a name; cheap enough to
-- ask often.
SELECT md5(concat(string_agg(concat_ws(',', c.oid, c.xmin,
           (SELECT string_agg(a.xmin::text, '.' ORDER BY a.attnum) FROM pg_attribute a
             WHERE a.attrelid = c.oid AND a.attnum > 0),
           (SELECT string_agg(r.xmin::text, '.' ORDER BY r.oid) FROM pg_rewrite r WHERE r.ev_class = c.oid),
           (SELECT string_agg(t.xmin::text, '.' ORDER BY t.oid) FROM pg_trigger t WHERE t.tgrelid = c.oid)),
       '|' ORDER BY c.oid),
       (SELECT string_agg(concat_ws(',', oid, xmin), '|' ORDER BY oid) FROM pg_namespace
         WHERE starts_with(nspname, 'lily_masked_')),
       (SELECT string_agg(concat_ws(',', roleid, member, xmin), '|' ORDER BY roleid, member, xmin::text)
          FROM pg_auth_members),
       (SELECT string_agg(concat_ws(',', oid, rolname, rolsuper, rolinherit), '|' ORDER BY oid) FROM pg_roles),
       (SELECT string_agg(concat_ws(',', oid, relnamespace, relname), '|' ORDER BY oid) FROM pg_class
         WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND relpersistence <> 't')))
  FROM pg_class c
 WHERE c.oid IN (SELECT relation FROM lily_protection.related() UNION SELECT relation FROM lily_protection.stripped)
    OR c.relnamespace IN (SELECT oid FROM pg_namespace WHERE starts_with(nspname, 'lily_masked_'))

-- name: read_view
-- Workshop.apply: the fingerprint of a view as it has become.
SELECT lily_protection.print_of(v.oid) FROM pg_class v JOIN pg_namespace n ON n.oid = v.relnamespace
 WHERE n.nspname = %(schema)s AND v.relname = %(name)s

-- name: read_roles
-- Catalog.roles: every role, and those whose rights it has by being their member.
WITH RECURSIVE reached AS (
    SELECT m.member, m.roleid FROM pg_auth_members m
     UNION
    SELECT r.member, m.roleid FROM reached r JOIN pg_auth_members m ON m.member = r.roleid
)
SELECT r.oid::bigint, r.rolname, r.rolsuper, r.rolcanlogin,
       ARRAY(SELECT x.roleid::bigint FROM reached x WHERE x.member = r.oid AND pg_has_role(r.oid, x.roleid, 'USAGE'))
  FROM pg_roles r ORDER BY r.oid

-- name: read_schemas
-- Paths.prepare: the schemas of others, whose roles may use them, and the rights on their shadows.
SELECT n.nspname, coalesce(lily_protection.is_ours(s.nspname), false),
       coalesce(NOT lily_protection.is_ours(s.nspname), false), lily_protection.rights(n.nspacl), lily_protection.rights(s.nspacl),
       (SELECT coalesce(array_agg(DISTINCT c.relowner::bigint), '{}') FROM pg_class c
         WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'f'))
  FROM pg_namespace n LEFT JOIN pg_namespace s ON s.nspname = lily_protection.shadow(n.nspname)
 WHERE NOT lily_protection.is_ours(n.nspname) ORDER BY n.nspname

-- name: read_paths
-- Paths.prepare: the search path set for each role here, for the database (role 0), and for roles everywhere.
SELECT s.setrole::bigint, s.setdatabase <> 0, substr(setting, length('search_path=') + 1)
  FROM pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) AS setting
 WHERE setting LIKE 'search_path=%%'
   AND s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))

-- name: read_default_path
-- Paths.prepare: what a session has when nobody set anything for its role or database.
SELECT coalesce((SELECT f.setting FROM pg_file_settings f WHERE f.name = 'search_path' AND f.applied LIMIT 1), boot_val)
  FROM pg_settings WHERE name = 'search_path'

-- name: read_boot_path
-- Paths.prepare, for a role that may not see the server's files.
SELECT boot_val FROM pg_settings WHERE name = 'search_path'

-- name: read_made_paths
-- Paths.prepare.
SELECT p.role::bigint, p.had, p.made FROM lily_protection.paths p

-- name: put_path
-- Paths.prepare.
INSERT INTO lily_protection.paths VALUES (%(role)s::bigint::oid, %(had)s, %(made)s)
ON CONFLICT (role) DO UPDATE SET had = excluded.had, made = excluded.made

-- name: forget_path
-- Paths.release.
DELETE FROM lily_protection.paths WHERE role = %(role)s::bigint::oid

-- name: read_excepted
-- Workshop.status: logins whom PostgreSQL lets read everything, or who own what is protected, and why.
SELECT r.rolname, CASE WHEN r.rolsuper THEN 'superuser'
                       WHEN pg_has_role(r.oid, 'pg_read_all_data', 'USAGE') THEN 'reads all data'
                       ELSE 'owns ' || (SELECT string_agg(DISTINCT o.relation::regclass::text, ', ')
                                          FROM lily_protection.originals o JOIN pg_class c ON c.oid = o.relation
                                         WHERE pg_has_role(r.oid, c.relowner, 'USAGE')) END
  FROM pg_roles r
 WHERE r.rolcanlogin AND (r.rolsuper OR pg_has_role(r.oid, 'pg_read_all_data', 'USAGE')
        OR EXISTS (SELECT FROM lily_protection.originals o JOIN pg_class c ON c.oid = o.relation
                    WHERE pg_has_role(r.oid, c.relowner, 'USAGE')))
 ORDER BY 1
