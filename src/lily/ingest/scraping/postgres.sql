-- What there is in a PostgreSQL database, read by lily.ingest.scraping.postgres in one snapshot. Names are given
-- without a search path, so that views' texts come qualified. Grants are 'role privilege'; role 0 is everybody.

-- name: roles
-- Who can have been granted something.
SELECT r.oid::text, r.rolname FROM pg_catalog.pg_roles AS r

-- name: database
-- The database itself.
SELECT d.datname, pg_catalog.pg_get_userbyid(d.datdba), pg_catalog.shobj_description(d.oid, 'pg_database'),
       ARRAY(SELECT a.grantee || ' ' || a.privilege_type
               FROM pg_catalog.aclexplode(coalesce(d.datacl, pg_catalog.acldefault('d', d.datdba))) AS a ORDER BY 1)
  FROM pg_catalog.pg_database AS d
 WHERE d.datname = pg_catalog.current_database()

-- name: schemas
-- Those that are somebody's, but for what Lily itself makes there to protect columns: those of the owner of
-- lily_protection, whoever else chose such a name.
SELECT n.oid, n.nspname, pg_catalog.pg_get_userbyid(n.nspowner), pg_catalog.obj_description(n.oid, 'pg_namespace'),
       ARRAY(SELECT a.grantee || ' ' || a.privilege_type
               FROM pg_catalog.aclexplode(coalesce(n.nspacl, pg_catalog.acldefault('n', n.nspowner))) AS a ORDER BY 1)
  FROM pg_catalog.pg_namespace AS n
 WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'lily_protection')
   AND NOT (n.nspname ~ '^lily_masked_' AND n.nspowner IN (
       SELECT l.nspowner FROM pg_catalog.pg_namespace AS l WHERE l.nspname = 'lily_protection'))
   AND (%(schemas)s::text[] IS NULL OR n.nspname = ANY(%(schemas)s::text[]))
 ORDER BY n.nspname

-- name: relations
-- Tables, partitions, foreign tables, views and materialised views.
SELECT c.oid, n.nspname, c.relname, c.relkind::text, pg_catalog.pg_get_userbyid(c.relowner),
       pg_catalog.obj_description(c.oid, 'pg_class'),
       ARRAY(SELECT a.grantee || ' ' || a.privilege_type
               FROM pg_catalog.aclexplode(coalesce(c.relacl, pg_catalog.acldefault('r', c.relowner))) AS a ORDER BY 1),
       c.relrowsecurity
  FROM pg_catalog.pg_class AS c
  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND c.relpersistence <> 't' AND n.oid = ANY(%(schemas)s::oid[])
 ORDER BY n.nspname, c.relname

-- name: columns
-- The columns of all relations, those of one relation together.
SELECT a.attrelid, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnum, a.attnotnull,
       coalesce(a.attnum = ANY(i.indkey), false), pg_catalog.col_description(a.attrelid, a.attnum),
       CASE WHEN a.attacl IS NOT NULL THEN
            ARRAY(SELECT x.grantee || ' ' || x.privilege_type
                    FROM pg_catalog.aclexplode(a.attacl) AS x ORDER BY 1) END
  FROM pg_catalog.pg_attribute AS a
  JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
  LEFT JOIN pg_catalog.pg_index AS i ON i.indrelid = a.attrelid AND i.indisprimary
 WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND c.relpersistence <> 't'
   AND c.relnamespace = ANY(%(schemas)s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attrelid, a.attnum

-- name: inheritance
-- Partitions and inheriting tables, with the table each belongs to.
SELECT i.inhparent, i.inhrelid FROM pg_catalog.pg_inherits AS i
  JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid AND c.relkind IN ('r', 'p', 'f')
 ORDER BY i.inhrelid, i.inhseqno

-- name: generated
-- Columns that are computed from others of their table, and those.
SELECT a.attrelid, a.attnum,
       ARRAY(SELECT DISTINCT u.refobjsubid::integer FROM pg_catalog.pg_depend AS u
              WHERE (u.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND u.objid = d.oid
                     OR u.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND u.objid = a.attrelid
                        AND u.objsubid = a.attnum)
                AND u.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND u.refobjid = a.attrelid
                AND u.refobjsubid > 0 AND u.refobjsubid <> a.attnum
              ORDER BY 1)
  FROM pg_catalog.pg_attribute AS a
  JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attgenerated <> '' AND NOT a.attisdropped
 ORDER BY a.attrelid, a.attnum

-- name: views
-- The text of every view, and the relations and columns PostgreSQL knows it to use (column 0: which is not known).
SELECT c.oid, pg_catalog.pg_get_viewdef(c.oid),
       ARRAY(SELECT DISTINCT ARRAY[d.refobjid::bigint, d.refobjsubid::bigint]
               FROM pg_catalog.pg_rewrite AS r
               JOIN pg_catalog.pg_depend AS d
                 ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid
                AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid <> c.oid
              WHERE r.ev_class = c.oid
              ORDER BY 1)
  FROM pg_catalog.pg_class AS c
 WHERE c.relkind IN ('v', 'm') AND c.relpersistence <> 't' AND c.relnamespace = ANY(%(schemas)s::oid[])
 ORDER BY c.oid
