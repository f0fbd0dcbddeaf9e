-- What steps mean for an incident, and which asset it is about. Replaced by every `lily migrate`.
-- These functions are the rule; tests/kit/incident_model.py is its oracle.

-- The asset the names of an incident lead to. A name is an asset's id, else what its source calls it, else what
-- it is called; the first name that leads to exactly one asset counts, and one that is deleted only while
-- there is no other. Called by apply_incident_steps and attach_incidents.
CREATE OR REPLACE FUNCTION incident_asset(tenant text, said jsonb) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT found.asset_id
      FROM jsonb_array_elements_text(coalesce(nullif(said -> 'names', 'null'), '[]')) WITH ORDINALITY AS n (name, rank)
     CROSS JOIN LATERAL (
        SELECT k.way, CASE count(*) FILTER (WHERE k.is_there) WHEN 1 THEN max(k.asset_id) FILTER (WHERE k.is_there)
                      WHEN 0 THEN CASE count(*) WHEN 1 THEN max(k.asset_id) END END AS asset_id
          FROM (
            SELECT 1 AS way, a.asset_id, a.is_deleted IS NOT TRUE AS is_there FROM assets AS a
             WHERE a.tenant_id = tenant AND a.asset_id = n.name AND a.asset_name IS NOT NULL AND a.asset_type IS NOT NULL
             UNION ALL
            SELECT 2, a.asset_id, a.is_deleted IS NOT TRUE FROM assets AS a
             WHERE left(lower(a.external_id), 256) = left(lower(n.name), 256) AND a.tenant_id = tenant
               AND lower(a.external_id) = lower(n.name) AND a.asset_name IS NOT NULL
               AND a.external_id IS NOT NULL AND a.asset_type <> ALL ('{column,bi_field,field}'::text[])
               AND coalesce(a.data_source = said ->> 'data_source', said ->> 'data_source' IS NULL)
             UNION ALL
            SELECT 3, a.asset_id, a.is_deleted IS NOT TRUE FROM assets AS a
             WHERE left(lower(a.asset_name), 256) = left(lower(n.name), 256) AND a.tenant_id = tenant
               AND lower(a.asset_name) = lower(n.name)
               AND a.asset_name IS NOT NULL AND a.asset_type <> ALL ('{column,bi_field,field}'::text[])
               AND coalesce(a.data_source = said ->> 'data_source', said ->> 'data_source' IS NULL)
          ) AS k GROUP BY k.way
     ) AS found
     WHERE found.asset_id IS NOT NULL ORDER BY n.rank, found.way LIMIT 1
$$;

-- An incident as every interface shows it.
CREATE OR REPLACE FUNCTION incident_document(
    incident_id text, asset_id text, said jsonb, opened_at timestamptz, updated_at timestamptz
) RETURNS json LANGUAGE sql STABLE AS $$
    SELECT json_build_object(
        'incident_id', incident_id, 'asset_id', asset_id,
        'title', said -> 'title', 'severity', said -> 'severity', 'status', coalesce(said ->> 'status', 'open'),
        'owner', said -> 'owner', 'feedback', said -> 'feedback', 'url', said -> 'url', 'ticket', said -> 'ticket',
        'rule', said -> 'rule', 'measurements', coalesce(nullif(said -> 'measurements', 'null'), '[]'),
        'names', coalesce(nullif(said -> 'names', 'null'), '[]'),
        'source', said -> 'source', 'connector_id', said -> 'connector_id', 'external_id', said -> 'external_id',
        'opened_at', opened_at, 'updated_at', updated_at)
$$;

-- What came of a step: the word in `outcome` of its change; NULL when nobody sees a difference.
CREATE OR REPLACE FUNCTION incident_outcome(
    was text, now text, changed text[], has_comment boolean
) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN was IS NULL THEN CASE now WHEN 'resolved' THEN 'resolved' ELSE 'opened' END
        WHEN was <> now THEN CASE now WHEN 'open' THEN 'reopened' ELSE now END
        WHEN 'owner' = ANY(changed) THEN 'assigned'
        WHEN has_comment THEN 'commented'
        WHEN changed = '{asset_id}' THEN 'attached'
        WHEN changed <> '{}' THEN 'updated' END
$$;

-- Applies the n-th new step of every incident; whether there was one. Of each field the newest word counts, by
-- the step's own time and then its id; what a step says at `first` counts only until somebody says otherwise.
CREATE OR REPLACE FUNCTION apply_incident_turn(turn bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    steps bigint;
BEGIN
    WITH steps AS MATERIALIZED (
        SELECT t.* FROM (
            SELECT a.tenant_id, a.from_id AS incident_id, a.event_id, a.event_time, a.actor, a.body,
                   row_number() OVER (PARTITION BY a.tenant_id, a.from_id ORDER BY a.seq) AS nth
              FROM applying AS a WHERE a.kind = 'incident') AS t
         WHERE t.nth = turn
    ), merged AS MATERIALIZED (
        SELECT s.*, i.said AS was, i.status AS was_status, i.asset_id AS was_asset,
               coalesce(i.said, '{}') || t.said AS said, coalesce(i.clocks, '{}') || t.clocks AS clocks,
               least(i.opened_at, s.event_time) AS opened_at, greatest(i.updated_at, s.event_time) AS updated_at
          FROM steps AS s
          LEFT JOIN LATERAL (
               SELECT * FROM incidents AS i
                WHERE i.tenant_id = s.tenant_id AND i.incident_id = s.incident_id OFFSET 0) AS i ON true
         CROSS JOIN LATERAL (
               SELECT coalesce(jsonb_object_agg(w.field, w.value), '{}') AS said,
                      coalesce(jsonb_object_agg(w.field, jsonb_build_array(w.micros, s.event_id)), '{}') AS clocks
                 FROM (
                    SELECT f.key AS field, f.value, 0::bigint AS micros FROM jsonb_each(s.body -> 'first') AS f
                     UNION ALL
                    SELECT f.key, f.value, (extract(epoch FROM s.event_time) * 1000000)::bigint
                      FROM jsonb_each(s.body -> 'said') AS f
                 ) AS w
                WHERE i.clocks IS NULL OR NOT i.clocks ? w.field
                   OR (w.micros, s.event_id) > ((i.clocks -> w.field ->> 0)::bigint, (i.clocks -> w.field ->> 1)::uuid)
         ) AS t
    ), placed AS MATERIALIZED (
        SELECT m.*, incident_asset(m.tenant_id, m.said) AS asset_id FROM merged AS m
    ), judged AS MATERIALIZED (
        SELECT p.*, ARRAY(
                   SELECT f.key FROM jsonb_each(p.said) AS f WHERE (p.was -> f.key) IS DISTINCT FROM f.value
                    UNION ALL SELECT 'asset_id' WHERE p.was_asset IS DISTINCT FROM p.asset_id
                    ORDER BY 1) AS changed
          FROM placed AS p
    ), written AS (
        INSERT INTO incidents (tenant_id, incident_id, asset_id, said, clocks, opened_at, updated_at)
        SELECT j.tenant_id, j.incident_id, j.asset_id, j.said, j.clocks, j.opened_at, j.updated_at FROM judged AS j
        ON CONFLICT (tenant_id, incident_id) DO UPDATE SET
            asset_id = excluded.asset_id, said = excluded.said, clocks = excluded.clocks,
            opened_at = excluded.opened_at, updated_at = excluded.updated_at
    ), renamed AS (
        SELECT j.tenant_id, j.incident_id, j.said FROM judged AS j WHERE 'names' = ANY(j.changed)
    ), forgotten AS (
        DELETE FROM incident_names AS n USING renamed AS r
         WHERE n.incident_id = r.incident_id AND n.tenant_id = r.tenant_id
           AND NOT EXISTS (SELECT FROM jsonb_array_elements_text(r.said -> 'names') AS k (name)
                            WHERE lower(k.name) = n.name)
    ), known AS (
        INSERT INTO incident_names
        SELECT DISTINCT r.tenant_id, lower(k.name), r.incident_id
          FROM renamed AS r
         CROSS JOIN LATERAL jsonb_array_elements_text(coalesce(nullif(r.said -> 'names', 'null'), '[]')) AS k (name)
        ON CONFLICT DO NOTHING
    ), told AS (
        INSERT INTO incident_changes (
            writer, tenant_id, incident_id, asset_id, event_id, cause, event_time, outcome, actor, changed, incident)
        SELECT 'lane', j.tenant_id, j.incident_id, j.asset_id, j.event_id, j.event_id, j.event_time, o.outcome,
               j.actor, j.changed,
               incident_document(j.incident_id, j.asset_id, j.said, j.opened_at, j.updated_at)
          FROM judged AS j
         CROSS JOIN LATERAL incident_outcome(
               j.was_status, coalesce(j.said ->> 'status', 'open'), j.changed, j.body ? 'comment') AS o (outcome)
         WHERE o.outcome IS NOT NULL
         ORDER BY j.event_time, j.event_id
    )
    SELECT count(*) INTO steps FROM judged;
    RETURN steps > 0;
END $$;

-- Applies the steps among the statements of a batch. Called by LineageApplier for every batch.
CREATE OR REPLACE FUNCTION apply_incident_steps() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    turn bigint := 1;
BEGIN
    IF EXISTS (SELECT FROM applying AS a WHERE a.kind = 'incident') THEN
        WHILE apply_incident_turn(turn) LOOP
            turn := turn + 1;
        END LOOP;
    END IF;
END $$;

-- Finds again the asset of every incident that a part of a lane may concern: whose names an asset of it has or
-- had, or that was spoken about while such an asset was on its way. Returns how many were found elsewhere than
-- before. Called by the Propagator, in the transaction of what follows from the same part.
CREATE OR REPLACE FUNCTION attach_incidents(of_lane text, after bigint, upto bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    moved bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM incident_names) THEN
        RETURN 0;
    END IF;
    WITH spoken AS MATERIALIZED (
        SELECT l.tenant_id, l.from_id AS incident_id, l.event_id AS cause
          FROM lineage_events AS l
         WHERE of_lane = 'lineage' AND l.seq > after AND l.seq <= upto AND l.kind = 'incident'
    ), came AS MATERIALIZED (
        SELECT c.tenant_id, c.asset_id, c.event_id, c.version, c.outcome, c.asset_name, c.external_id
          FROM changes AS c
         WHERE of_lane <> 'lineage' AND c.lane = of_lane AND c.seq > after AND c.seq <= upto
           AND (c.fields & 1075 <> 0 OR c.outcome = 'purged')
    ), called AS (
        SELECT c.tenant_id, c.event_id, k.name
          FROM came AS c
          LEFT JOIN LATERAL (
               SELECT b.asset_name, b.external_id FROM changes AS b
                WHERE b.asset_id = c.asset_id AND b.tenant_id = c.tenant_id AND b.version < c.version
                  AND b.asset_name IS NOT NULL AND c.outcome <> 'created'
                ORDER BY b.version DESC LIMIT 1) AS before ON true
         CROSS JOIN LATERAL (VALUES
               (c.asset_id), (c.asset_name), (c.external_id), (before.asset_name), (before.external_id)) AS k (name)
         WHERE k.name IS NOT NULL
    ), touched AS MATERIALIZED (
        SELECT DISTINCT ON (t.tenant_id, t.incident_id) t.tenant_id, t.incident_id, t.cause FROM (
            SELECT * FROM spoken
             UNION ALL
            SELECT n.tenant_id, n.incident_id, c.event_id
              FROM called AS c JOIN incident_names AS n ON n.tenant_id = c.tenant_id AND n.name = lower(c.name)
             UNION ALL
            SELECT i.tenant_id, i.incident_id, c.event_id
              FROM came AS c JOIN incidents AS i ON i.asset_id = c.asset_id AND i.tenant_id = c.tenant_id) AS t
    ), placed AS MATERIALIZED (
        SELECT i.*, t.cause, incident_asset(i.tenant_id, i.said) AS found
          FROM touched AS t JOIN incidents AS i ON i.tenant_id = t.tenant_id AND i.incident_id = t.incident_id
    ), moving AS (
        UPDATE incidents AS i SET asset_id = p.found FROM placed AS p
         WHERE i.tenant_id = p.tenant_id AND i.incident_id = p.incident_id AND p.asset_id IS DISTINCT FROM p.found
        RETURNING i.tenant_id, i.incident_id, i.asset_id, i.said, i.opened_at, i.updated_at, p.cause
    ), told AS (
        INSERT INTO incident_changes (
            writer, tenant_id, incident_id, asset_id, event_id, cause, event_time, outcome, actor, changed, incident)
        SELECT 'propagation', m.tenant_id, m.incident_id, m.asset_id,
               md5(m.tenant_id || '/' || m.incident_id || '/' || coalesce(m.asset_id, '') || '/' || m.cause)::uuid,
               m.cause, clock_timestamp(), CASE WHEN m.asset_id IS NULL THEN 'updated' ELSE 'attached' END, '',
               '{asset_id}',
               incident_document(m.incident_id, m.asset_id, m.said, m.opened_at, m.updated_at)
          FROM moving AS m
    )
    SELECT count(*) INTO moved FROM moving;
    RETURN moved;
END $$;
