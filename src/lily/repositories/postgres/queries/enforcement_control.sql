-- What Lily keeps in a target database, in the schema lily_protection: how things were before, and functions.
-- Nobody but the role that enforces may read or change any of it. Run by Control, statement by statement.

-- name: read_strangers
-- Control.is_there: what in lily_protection belongs to another role than the one that enforces, in words.
WITH me AS (SELECT oid FROM pg_roles WHERE rolname = current_user),
     control AS (SELECT oid, nspowner FROM pg_namespace WHERE nspname = 'lily_protection')
SELECT format('the schema lily_protection belongs to %%I', pg_get_userbyid(control.nspowner))
  FROM control, me WHERE control.nspowner <> me.oid
 UNION ALL
SELECT format('lily_protection.%%I belongs to %%I', c.relname, pg_get_userbyid(c.relowner))
  FROM pg_class c JOIN control ON control.oid = c.relnamespace, me
 WHERE c.relowner <> me.oid AND c.relkind NOT IN ('i', 't')
 UNION ALL
SELECT format('lily_protection.%%I() belongs to %%I', p.proname, pg_get_userbyid(p.proowner))
  FROM pg_proc p JOIN control ON control.oid = p.pronamespace, me WHERE p.proowner <> me.oid

-- name: is_there
-- Control.is_there.
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'lily_protection')

-- name: create_schema
-- Control.furnish: fails when somebody was quicker, and is then refused.
CREATE SCHEMA lily_protection;
REVOKE ALL ON SCHEMA lily_protection FROM PUBLIC

-- name: has_workplace
-- Control.furnish.
SELECT to_regclass('lily_protection.workplace') IS NOT NULL

-- name: create_workplace
-- Control.furnish: locked by the process that works on the database. Only this role may lock it, unlike an advisory
-- lock; and a view is never vacuumed, which a lock held for months would be in the way of.
CREATE VIEW lily_protection.workplace AS SELECT 1 AS one;
SELECT lily_protection.seclude('lily_protection.workplace'::regclass)

-- name: lock_workplace
-- Target, in a transaction that lasts as long as the work.
LOCK TABLE lily_protection.workplace IN EXCLUSIVE MODE NOWAIT

-- name: last_long
-- Target: the transaction that holds the lock is idle, and must not be ended for it.
SELECT set_config(name, '0', false) FROM pg_settings
 WHERE name IN ('idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')

-- name: create_control
-- Control.furnish, by every process that begins to work: a database registered by an older release gets what is new.
-- `originals`: the rights on a relation before
-- Lily (`rights`), as Lily left them (`enforced`), the names of the protected columns by number,
-- the view's fingerprint, and every name the relation has had since (`places`).
-- `stripped`: rights granted by others that the guard took away, until the enforcer has seen them.
-- `paths`: search paths before (`had`) and as Lily set them; role 0 is the database's own.
-- `shapes`: what tables, columns and views looked like when the database was ordered to be scraped.
-- `transactions`: the enforcer's own transaction while it runs, for the guard.
-- `unchecked`: a transaction of somebody else that changed the schema, until the guard has looked before its commit.
-- `fence`: one row, which the enforcer changes with every work and others hold while the guard looks and they commit.
-- Nothing that exists is altered when that is not needed: it would wait for every transaction that changed the schema.
CREATE TABLE IF NOT EXISTS lily_protection.originals (
    relation      oid   PRIMARY KEY,
    schema_name   name  NOT NULL,
    relation_name name  NOT NULL,
    rights        jsonb NOT NULL,
    enforced      jsonb NOT NULL,
    shield        jsonb NOT NULL,
    fingerprint   text  NOT NULL
);
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'lily_protection.originals'::regclass
                      AND attname = 'places' AND NOT attisdropped) THEN
        ALTER TABLE lily_protection.originals ADD COLUMN places jsonb NOT NULL DEFAULT '[]';
    END IF;
END $$;
CREATE TABLE IF NOT EXISTS lily_protection.stripped (relation oid PRIMARY KEY, rights jsonb NOT NULL);
CREATE TABLE IF NOT EXISTS lily_protection.paths (role oid PRIMARY KEY, had text, made text NOT NULL);
CREATE TABLE IF NOT EXISTS lily_protection.salts (id integer PRIMARY KEY CHECK (id = 1), salt text NOT NULL);
CREATE TABLE IF NOT EXISTS lily_protection.transactions (id xid8 PRIMARY KEY);
CREATE TABLE IF NOT EXISTS lily_protection.unchecked (id xid8 PRIMARY KEY);
CREATE TABLE IF NOT EXISTS lily_protection.fence (id integer PRIMARY KEY CHECK (id = 1), works bigint NOT NULL);
INSERT INTO lily_protection.fence VALUES (1, 0) ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS lily_protection.known (relation oid PRIMARY KEY);
CREATE TABLE IF NOT EXISTS lily_protection.shapes (id integer PRIMARY KEY CHECK (id = 1), shape text NOT NULL);
CREATE TABLE IF NOT EXISTS lily_protection.options (id integer PRIMARY KEY CHECK (id = 1), deny_unknown boolean NOT NULL);

CREATE OR REPLACE FUNCTION lily_protection.shadow(name) RETURNS name
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ('lily_masked_' || CASE WHEN octet_length($1::text) <= 51 THEN $1::text ELSE md5($1::text) END)::name
$$;

-- PostgreSQL's schemas and Lily's. A name does not make one Lily's: anybody who may create schemas can choose it.
CREATE OR REPLACE FUNCTION lily_protection.is_ours(name) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT starts_with($1::text, 'pg_') OR $1 = 'information_schema' OR $1 = 'lily_protection'
        OR starts_with($1::text, 'lily_masked_') AND EXISTS (
           SELECT FROM pg_namespace n JOIN pg_namespace control ON control.nspowner = n.nspowner
            WHERE n.nspname = $1 AND control.nspname = 'lily_protection')
$$;

CREATE OR REPLACE FUNCTION lily_protection.rights(aclitem[]) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN $1 IS NOT NULL THEN coalesce((
        SELECT jsonb_agg(jsonb_build_array(e.grantor::bigint, e.grantee::bigint, e.held) ORDER BY i.place)
          FROM unnest($1) WITH ORDINALITY AS i (item, place)
         CROSS JOIN LATERAL (
               SELECT x.grantor, x.grantee,
                      jsonb_agg(x.privilege_type || CASE WHEN x.is_grantable THEN '*' ELSE '' END
                                ORDER BY x.privilege_type) AS held
                 FROM aclexplode(ARRAY[i.item]) AS x GROUP BY x.grantor, x.grantee) AS e), '[]') END
$$;

CREATE OR REPLACE FUNCTION lily_protection.rights_of(oid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object('relation', lily_protection.rights(c.relacl), 'columns', coalesce((
               SELECT jsonb_object_agg(a.attnum, lily_protection.rights(a.attacl)) FROM pg_attribute a
                WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attacl IS NOT NULL), '{}'))
      FROM pg_class c WHERE c.oid = $1
$$;

-- Everybody with a right on a relation or one of its columns.
CREATE OR REPLACE FUNCTION lily_protection.grantees(oid) RETURNS TABLE (role oid)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT x.grantee FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS x WHERE c.oid = $1
     UNION
    SELECT x.grantee FROM pg_attribute a CROSS JOIN LATERAL aclexplode(a.attacl) AS x WHERE a.attrelid = $1
$$;

-- Takes everything on what Lily has made from everybody but its owner: what is new has the rights that default
-- privileges give, to whomever they name.
CREATE OR REPLACE FUNCTION lily_protection.seclude(regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    others text;
BEGIN
    SELECT string_agg(CASE WHEN g.role = 0 THEN 'PUBLIC' ELSE g.role::regrole::text END, ', ') INTO others
      FROM lily_protection.grantees($1) AS g
     WHERE g.role <> (SELECT c.relowner FROM pg_class c WHERE c.oid = $1);
    IF others IS NOT NULL THEN
        EXECUTE format('REVOKE ALL ON TABLE %s FROM %s CASCADE', $1, others);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION lily_protection.seclude(regnamespace) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    others text;
BEGIN
    SELECT string_agg(DISTINCT CASE WHEN x.grantee = 0 THEN 'PUBLIC' ELSE x.grantee::regrole::text END, ', ')
      INTO others FROM pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) AS x
     WHERE n.oid = $1 AND x.grantee <> n.nspowner;
    IF others IS NOT NULL THEN
        EXECUTE format('REVOKE ALL ON SCHEMA %s FROM %s CASCADE', $1, others);
    END IF;
END $$;

-- Of a masking view, to see whether anybody changed it.
CREATE OR REPLACE FUNCTION lily_protection.print_of(oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT md5(concat_ws('|', v.oid, pg_get_viewdef(v.oid), v.relowner, v.reloptions, v.relacl,
               (SELECT string_agg(concat(a.attname, a.attacl), ',' ORDER BY a.attnum) FROM pg_attribute a
                 WHERE a.attrelid = v.oid AND a.attnum > 0),
               (SELECT string_agg(concat(g.tgname, g.tgenabled), ',' ORDER BY g.tgname) FROM pg_trigger g
                 WHERE g.tgrelid = v.oid)))
      FROM pg_class v WHERE v.oid = $1
$$;

-- Whether somebody's view is made of this one.
CREATE OR REPLACE FUNCTION lily_protection.is_used(oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_depend u JOIN pg_rewrite w ON w.oid = u.objid
                    WHERE u.classid = 'pg_rewrite'::regclass AND u.refclassid = 'pg_class'::regclass
                      AND u.refobjid = $1 AND w.ev_class <> $1)
$$;

-- The masking views made of a relation under names it had before, and that nothing else has now.
CREATE OR REPLACE FUNCTION lily_protection.strays(oid)
RETURNS TABLE (schema_name name, view_name name, is_used boolean, is_secluded boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT n.nspname, v.relname, lily_protection.is_used(v.oid), NOT EXISTS (
           SELECT FROM lily_protection.grantees(v.oid) AS g WHERE g.role <> v.relowner)
      FROM (SELECT DISTINCT w.ev_class FROM pg_depend d JOIN pg_rewrite w ON w.oid = d.objid
             WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
               AND d.refobjid = $1) AS made
      JOIN pg_class v ON v.oid = made.ev_class AND v.relkind = 'v'
      JOIN pg_namespace n ON n.oid = v.relnamespace AND starts_with(n.nspname::text, 'lily_masked_')
       AND lily_protection.is_ours(n.nspname)
     WHERE NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
                        WHERE c.relname = v.relname AND lily_protection.shadow(s.nspname) = n.nspname
                          AND c.relkind IN ('r', 'p', 'v', 'm', 'f'))
$$;

-- The names of protected relations, and those they had before.
CREATE OR REPLACE FUNCTION lily_protection.places() RETURNS TABLE (relation oid, schema_name name, relation_name name)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT o.relation, o.schema_name, o.relation_name FROM lily_protection.originals o
     UNION
    SELECT o.relation, (p ->> 0)::name, (p ->> 1)::name
      FROM lily_protection.originals o CROSS JOIN LATERAL jsonb_array_elements(o.places) AS p
$$;

-- Every relation that follows from a protected one: itself, what it is part of, its parts; and whoever took
-- its name.
CREATE OR REPLACE FUNCTION lily_protection.related() RETURNS TABLE (relation oid)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE named AS (
        SELECT o.relation FROM lily_protection.originals o
         UNION
        SELECT c.oid FROM lily_protection.places() AS p
          JOIN pg_namespace n ON n.nspname = p.schema_name
          JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.relation_name
    ), related AS (
        SELECT named.relation FROM named
         UNION
        SELECT r.relation FROM related CROSS JOIN LATERAL (
               SELECT i.inhparent AS relation FROM pg_inherits i WHERE i.inhrelid = related.relation
                UNION ALL SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = related.relation) r
    )
    SELECT related.relation FROM related JOIN pg_class c ON c.oid = related.relation
     WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
$$;

-- Relations that show more than Lily left: rights to read them as a whole, or a right to read a protected column
-- (or one that has its name now) that was not there; and, when unknown ones are denied, any right to read those.
CREATE OR REPLACE FUNCTION lily_protection.exposed() RETURNS TABLE (relation oid)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid
      FROM lily_protection.related() AS r JOIN pg_class c ON c.oid = r.relation
      LEFT JOIN lily_protection.originals o ON o.relation = c.oid
     WHERE EXISTS (SELECT FROM aclexplode(c.relacl) AS x
                    WHERE x.grantee <> c.relowner AND x.privilege_type IN ('SELECT', 'REFERENCES', 'TRIGGER'))
        OR EXISTS (
           SELECT FROM pg_attribute a CROSS JOIN LATERAL aclexplode(a.attacl) AS x
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND x.grantee <> c.relowner
              AND x.privilege_type IN ('SELECT', 'REFERENCES')
              AND (o.relation IS NULL
                   OR (o.shield ? a.attnum::text
                       OR EXISTS (SELECT FROM jsonb_each(o.shield) AS known WHERE known.value ? a.attname::text))
                  AND NOT EXISTS (
                   SELECT FROM jsonb_array_elements(o.enforced -> 'columns' -> a.attnum::text) AS held
                    WHERE (held ->> 1)::bigint = x.grantee::bigint AND held -> 2 ? x.privilege_type)))
     UNION
    SELECT c.oid
      FROM lily_protection.options AS chosen
      JOIN pg_class c ON chosen.deny_unknown AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      JOIN pg_namespace n ON n.oid = c.relnamespace AND NOT lily_protection.is_ours(n.nspname)
     WHERE NOT EXISTS (SELECT FROM lily_protection.known k WHERE k.relation = c.oid)
       AND (EXISTS (SELECT FROM aclexplode(c.relacl) AS x
                     WHERE x.grantee <> c.relowner AND x.privilege_type IN ('SELECT', 'REFERENCES', 'TRIGGER'))
         OR EXISTS (SELECT FROM pg_attribute a CROSS JOIN LATERAL aclexplode(a.attacl) AS x
                     WHERE a.attrelid = c.oid AND a.attnum > 0 AND x.grantee <> c.relowner
                       AND x.privilege_type IN ('SELECT', 'REFERENCES')))
$$;

-- Rights as two looks found them, one after the other.
CREATE OR REPLACE FUNCTION lily_protection.joined(jsonb, jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'relation', CASE WHEN $1 -> 'relation' = 'null' THEN $2 -> 'relation'
                         WHEN $2 -> 'relation' = 'null' THEN $1 -> 'relation'
                         ELSE ($1 -> 'relation') || ($2 -> 'relation') END,
        'columns', coalesce((
            SELECT jsonb_object_agg(number, coalesce($1 -> 'columns' -> number, '[]')
                                         || coalesce($2 -> 'columns' -> number, '[]'))
              FROM (SELECT jsonb_object_keys($1 -> 'columns') UNION SELECT jsonb_object_keys($2 -> 'columns'))
                   AS found (number)), '{}'))
$$;

-- Runs after every change of the schema by anybody else: has their transaction looked at before it commits, and wakes
-- the enforcer, who puts things in order.
CREATE OR REPLACE FUNCTION lily_protection.guard() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM lily_protection.transactions WHERE id = pg_current_xact_id()) THEN
        RETURN;
    END IF;
    INSERT INTO lily_protection.unchecked VALUES (pg_current_xact_id()) ON CONFLICT DO NOTHING;
    PERFORM pg_notify('lily_protection', '');
END $$;

-- Last in a transaction that changed the schema: takes away what shows too much. From the look to the commit the fence
-- is held, so that no work of the enforcer comes in between, unseen by either. A transaction that sees the database as
-- it was before such a work cannot hold it, and fails (40001).
CREATE OR REPLACE FUNCTION lily_protection.look_before_commit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    shown record;
BEGIN
    DELETE FROM lily_protection.unchecked WHERE id = NEW.id; -- what is changed after this is looked at again
    PERFORM FROM lily_protection.fence FOR SHARE;
    INSERT INTO lily_protection.transactions VALUES (pg_current_xact_id()); -- what follows is ours
    FOR shown IN
        SELECT e.relation, c.relowner FROM lily_protection.exposed() e JOIN pg_class c ON c.oid = e.relation
    LOOP
        INSERT INTO lily_protection.stripped VALUES (shown.relation, lily_protection.rights_of(shown.relation))
        ON CONFLICT (relation) DO UPDATE SET rights = lily_protection.joined(stripped.rights, excluded.rights);
        EXECUTE format('REVOKE SELECT, REFERENCES, TRIGGER ON TABLE %s FROM %s CASCADE', shown.relation::regclass,
            (SELECT string_agg(DISTINCT CASE WHEN x.grantee = 0 THEN 'PUBLIC' ELSE x.grantee::regrole::text END, ', ')
               FROM (SELECT grantee FROM pg_class c, aclexplode(c.relacl) WHERE c.oid = shown.relation
                      UNION SELECT grantee FROM pg_attribute a, aclexplode(a.attacl)
                       WHERE a.attrelid = shown.relation AND a.attnum > 0) AS x
              WHERE x.grantee <> shown.relowner));
    END LOOP;
    DELETE FROM lily_protection.transactions WHERE id = pg_current_xact_id();
    RETURN NULL;
END $$;

DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'lily_protection.unchecked'::regclass) THEN
        CREATE CONSTRAINT TRIGGER look_before_commit AFTER INSERT ON lily_protection.unchecked
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lily_protection.look_before_commit();
        ALTER TABLE lily_protection.unchecked ENABLE ALWAYS TRIGGER look_before_commit;
    END IF;
END $$;

-- INSTEAD OF INSERT and UPDATE on a masking view: writes to the relation with the rights of whoever writes.
-- Arguments: the relation's oid, the columns PostgreSQL fills itself, the key.
CREATE OR REPLACE FUNCTION lily_protection.write() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    base regclass := TG_ARGV[0]::oid;
    filled text[] := TG_ARGV[1]::text[];
    said jsonb := to_jsonb(NEW);
    names text;
    told text;
    answer record;
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT string_agg(quote_ident(key), ', ') INTO names FROM jsonb_each(said)
         WHERE has_column_privilege(base, key, 'INSERT') AND NOT (key = ANY (filled) AND value = 'null');
        SELECT string_agg(quote_ident(key), ', ') INTO told FROM unnest(filled) AS key
         WHERE has_column_privilege(base, key, 'SELECT');
        IF told IS NULL THEN
            EXECUTE format('INSERT INTO %s (%s) SELECT %s FROM (SELECT ($1).*) AS said', base, names, names) USING NEW;
        ELSE
            EXECUTE format('INSERT INTO %s (%s) SELECT %s FROM (SELECT ($1).*) AS said RETURNING %s',
                           base, names, names, told) USING NEW INTO answer;
            NEW := jsonb_populate_record(NEW, to_jsonb(answer));
        END IF;
        RETURN NEW;
    END IF;
    SELECT string_agg(format('%I = ($1).%I', key, key), ', ') INTO names FROM jsonb_each(said)
     WHERE value IS DISTINCT FROM to_jsonb(OLD) -> key;
    IF names IS NOT NULL THEN
        SELECT string_agg(format('%I = ($2).%I', key, key), ' AND ') INTO told FROM unnest(TG_ARGV[2]::text[]) AS key;
        EXECUTE format('UPDATE %s SET %s WHERE %s', base, names, told) USING NEW, OLD;
    END IF;
    RETURN NEW;
END $$;

SELECT lily_protection.seclude('lily_protection'::regnamespace);
SELECT lily_protection.seclude(c.oid::regclass) FROM pg_class c
 WHERE c.relnamespace = 'lily_protection'::regnamespace AND c.relkind = 'r';

-- name: create_guard
-- Control.post_guard, where the role that enforces is a superuser; others may not make event triggers.
CREATE EVENT TRIGGER lily_protection_guard ON ddl_command_end EXECUTE FUNCTION lily_protection.guard()

-- name: enable_guard
-- Control.post_guard: fires in sessions that replicate, too.
ALTER EVENT TRIGGER lily_protection_guard ENABLE ALWAYS

-- name: read_guard
-- Control.post_guard: how it is enabled, if there is one, and whether there may be one.
SELECT (SELECT evtenabled::text FROM pg_event_trigger WHERE evtname = 'lily_protection_guard'),
       (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)

-- name: begin_work
-- Control.furnish, Preparation and Workshop: tells the guard that this transaction is the enforcer's own.
INSERT INTO lily_protection.transactions VALUES (pg_current_xact_id()) ON CONFLICT DO NOTHING

-- name: end_work
-- Preparation and Workshop, before the commit: nobody else ever sees the row.
DELETE FROM lily_protection.transactions

-- name: pass_fence
-- Workshop.apply, first in a work: whoever changed the schema before has committed, and can be seen; whoever commits
-- such a change afterwards sees what has come of the work.
UPDATE lily_protection.fence SET works = works + 1

-- name: set_salt
-- Preparation.make.
INSERT INTO lily_protection.salts VALUES (1, %(salt)s)
ON CONFLICT (id) DO UPDATE SET salt = excluded.salt WHERE salts.salt <> excluded.salt

-- name: set_options
-- Preparation.make.
INSERT INTO lily_protection.options VALUES (1, %(deny_unknown)s)
ON CONFLICT (id) DO UPDATE SET deny_unknown = excluded.deny_unknown
 WHERE options.deny_unknown <> excluded.deny_unknown

-- name: set_known
-- Workshop.plan, where unknown relations are denied: which ones of those it looked at, or of all, are known.
WITH gone AS (DELETE FROM lily_protection.known WHERE relation <> ALL (%(known)s::bigint[]::oid[])
                 AND (%(found)s::bigint[] IS NULL OR relation = ANY (%(found)s::bigint[]::oid[])))
INSERT INTO lily_protection.known SELECT unnest(%(known)s::bigint[])::oid ON CONFLICT DO NOTHING

-- name: read_shape
-- ScrapeOrders.look: changes with every relation that comes or goes, every column and every view's text; and the
-- shape that was kept.
SELECT (SELECT md5(string_agg(concat_ws(',', c.oid, c.relnamespace, c.relname,
               (SELECT string_agg(concat_ws('.', a.attnum, a.attname, a.atttypid, a.attgenerated), ';' ORDER BY a.attnum)
                  FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
               (SELECT string_agg(r.xmin::text, '.' ORDER BY r.oid) FROM pg_rewrite r WHERE r.ev_class = c.oid)),
               '|' ORDER BY c.oid))
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND NOT lily_protection.is_ours(n.nspname)
         WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relpersistence <> 't'),
       (SELECT shape FROM lily_protection.shapes)

-- name: keep_shape
-- ScrapeOrders.look, once a job is ordered.
INSERT INTO lily_protection.shapes VALUES (1, %(shape)s) ON CONFLICT (id) DO UPDATE SET shape = excluded.shape

-- name: put_original
-- Workshop.apply, last in the work on a relation: `enforced` is what has come of it.
INSERT INTO lily_protection.originals
SELECT %(relation)s::bigint::oid, n.nspname, c.relname, %(rights)s::jsonb, lily_protection.rights_of(c.oid),
       %(shield)s::jsonb, %(fingerprint)s, %(places)s::jsonb
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %(relation)s::bigint::oid
ON CONFLICT (relation) DO UPDATE SET schema_name = excluded.schema_name, relation_name = excluded.relation_name,
    rights = excluded.rights, enforced = excluded.enforced, shield = excluded.shield,
    fingerprint = excluded.fingerprint, places = excluded.places
RETURNING enforced

-- name: forget_original
-- Workshop.apply, when a relation is as it was before Lily.
DELETE FROM lily_protection.originals WHERE relation = %(relation)s::bigint::oid

-- name: forget_stripped
-- Workshop.apply: what others granted is in the original now.
DELETE FROM lily_protection.stripped WHERE relation = %(relation)s::bigint::oid

-- name: has_gone
-- Workshop.plan: whether a protected relation was dropped.
SELECT EXISTS (SELECT FROM lily_protection.originals o
                WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = o.relation))

-- name: forget_gone
-- Workshop.plan: relations that were dropped. One whose name is still to be protected is kept, so that the guard protects
-- what takes the name next from its first moment, unless another is kept for that.
DELETE FROM lily_protection.originals o
 WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = o.relation)
   AND NOT EXISTS (
       SELECT FROM lily_protection.places() AS p
         JOIN unnest(%(schemas)s::name[], %(names)s::name[]) AS wanted (schema_name, relation_name)
        USING (schema_name, relation_name)
        WHERE p.relation = o.relation AND NOT EXISTS (
              SELECT FROM lily_protection.places() AS q
               WHERE q.relation <> o.relation
                 AND (q.schema_name, q.relation_name) = (p.schema_name, p.relation_name)
                 AND (q.relation > o.relation OR EXISTS (SELECT FROM pg_class c WHERE c.oid = q.relation))))

-- name: drop_guard
-- Control.post_guard, in the ledger as what undoes it.
DROP EVENT TRIGGER IF EXISTS lily_protection_guard

-- name: drop_control
-- Preparation.leaving: nothing of Lily is left.
DROP EVENT TRIGGER IF EXISTS lily_protection_guard;
DROP SCHEMA IF EXISTS lily_protection CASCADE
