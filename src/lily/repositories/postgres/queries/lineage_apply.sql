-- How statements about lineage and tags become state: of two about the same thing the later one counts,
-- by its own time and then by its id, in whatever order they arrive.

-- name: create_staging
-- LineageApplier, once per connection.
CREATE TEMPORARY TABLE IF NOT EXISTS staged_statements (
    topic text, "partition" integer, "offset" bigint, key bytea, payload bytea, headers text,
    reason text, detail text, event_id text, tenant_id text, event_time timestamptz, received_at timestamptz,
    actor text, traceparent text, kind text, source text, holds boolean, from_id text, to_id text,
    relationship_type text, tags text[], body text
) ON COMMIT DELETE ROWS

-- name: create_applying
-- LineageApplier, once per connection.
CREATE TEMPORARY TABLE IF NOT EXISTS applying (LIKE lineage_events) ON COMMIT DELETE ROWS

-- name: record_events
-- LineageApplier, for every batch. An id names one event: of several records with it the first counts.
WITH fresh AS (
    INSERT INTO lineage_events (
        tenant_id, event_id, kind, event_time, actor, source, holds, from_id, to_id, relationship_type, tags, body)
    SELECT tenant_id, event_id::uuid, kind, event_time, actor, source, holds, from_id, to_id, relationship_type,
           tags, body::jsonb
      FROM staged_statements WHERE reason IS NULL ORDER BY "partition", "offset"
    ON CONFLICT DO NOTHING
    RETURNING *
)
INSERT INTO applying SELECT * FROM fresh

-- name: merge_edge_assertions
-- LineageApplier, for every batch.
INSERT INTO edge_assertions AS e
SELECT DISTINCT ON (tenant_id, from_id, to_id, relationship_type, source)
       tenant_id, from_id, to_id, relationship_type, source, holds,
       coalesce((body ->> 'is_indirect')::boolean, false), coalesce((body ->> 'is_masking')::boolean, false),
       body ->> 'subtype', coalesce(tags, '{}'), body, actor, event_time, event_id
  FROM applying WHERE kind = 'edge'
 ORDER BY tenant_id, from_id, to_id, relationship_type, source, event_time DESC, event_id DESC
ON CONFLICT (tenant_id, from_id, to_id, relationship_type, source) DO UPDATE SET
    holds = excluded.holds, is_indirect = excluded.is_indirect, is_masking = excluded.is_masking,
    subtype = excluded.subtype, blocked_tags = excluded.blocked_tags, body = excluded.body, actor = excluded.actor,
    clock_time = excluded.clock_time, clock_id = excluded.clock_id
WHERE (excluded.clock_time, excluded.clock_id) > (e.clock_time, e.clock_id)

-- name: merge_edges
-- LineageApplier, for every batch: an edge is there while a source asserts it. What it blocks is what any of
-- them blocks; the rest is as the latest of them says.
WITH touched AS MATERIALIZED (
    SELECT DISTINCT tenant_id, from_id, to_id, relationship_type FROM applying WHERE kind = 'edge'
), judged AS (
    -- What a source says lives until it or, later, everybody ('*') takes it back.
    SELECT a.*, a.holds AND NOT bool_or(a.source = '*') OVER (
               PARTITION BY a.from_id, a.to_id, a.relationship_type, a.tenant_id
               ORDER BY a.clock_time DESC, a.clock_id DESC ROWS UNBOUNDED PRECEDING) AS lives
      FROM touched AS t CROSS JOIN LATERAL (
           SELECT * FROM edge_assertions AS a
            WHERE a.tenant_id = t.tenant_id AND a.from_id = t.from_id AND a.to_id = t.to_id
              AND a.relationship_type = t.relationship_type OFFSET 0) AS a
), merged AS MATERIALIZED (
    SELECT from_id, to_id, relationship_type, tenant_id,
           (array_agg(is_indirect ORDER BY clock_time DESC, clock_id DESC) FILTER (WHERE lives))[1] AS is_indirect,
           (array_agg(is_masking ORDER BY clock_time DESC, clock_id DESC) FILTER (WHERE lives))[1] AS is_masking,
           (array_agg(subtype ORDER BY clock_time DESC, clock_id DESC) FILTER (WHERE lives))[1] AS subtype,
           CASE WHEN max(cardinality(blocked_tags)) FILTER (WHERE lives) = 0 THEN '{}' ELSE (
               SELECT coalesce(array_agg(DISTINCT b ORDER BY b), '{}') FROM unnest(string_to_array(string_agg(
                      array_to_string(blocked_tags, E'\x1f'), E'\x1f') FILTER (WHERE lives), E'\x1f')) AS b
                WHERE b <> '') END AS blocked_tags,
           array_agg(source ORDER BY source) FILTER (WHERE lives) AS sources,
           max(clock_time) FILTER (WHERE lives) AS asserted_at
      FROM judged GROUP BY from_id, to_id, relationship_type, tenant_id
), gone AS (
    DELETE FROM edges AS e USING merged AS m
     WHERE m.sources IS NULL AND e.tenant_id = m.tenant_id AND e.from_id = m.from_id
       AND e.relationship_type = m.relationship_type AND e.to_id = m.to_id
)
INSERT INTO edges AS e
SELECT tenant_id, from_id, to_id, relationship_type, is_indirect, is_masking, subtype, blocked_tags, sources, asserted_at
  FROM merged WHERE sources IS NOT NULL
ON CONFLICT (tenant_id, from_id, relationship_type, to_id) DO UPDATE SET
    is_indirect = excluded.is_indirect, is_masking = excluded.is_masking, subtype = excluded.subtype,
    blocked_tags = excluded.blocked_tags, sources = excluded.sources, asserted_at = excluded.asserted_at

-- name: merge_tag_assertions
-- LineageApplier, for every batch.
INSERT INTO tag_assertions AS t
SELECT DISTINCT ON (a.tenant_id, a.from_id, n.tag, a.source)
       a.tenant_id, a.from_id, n.tag, a.source, a.holds, a.body, a.actor, a.event_time, a.event_id
  FROM applying AS a CROSS JOIN LATERAL unnest(a.tags) AS n (tag) WHERE a.kind = 'tag'
 ORDER BY a.tenant_id, a.from_id, n.tag, a.source, a.event_time DESC, a.event_id DESC
ON CONFLICT (tenant_id, asset_id, tag, source) DO UPDATE SET
    holds = excluded.holds, body = excluded.body, actor = excluded.actor, clock_time = excluded.clock_time,
    clock_id = excluded.clock_id
WHERE (excluded.clock_time, excluded.clock_id) > (t.clock_time, t.clock_id)

-- name: merge_opt_outs
-- LineageApplier, for every batch.
INSERT INTO tag_opt_outs AS t
SELECT DISTINCT ON (a.tenant_id, a.from_id, n.tag)
       a.tenant_id, a.from_id, n.tag, a.holds, a.actor, a.event_time, a.event_id
  FROM applying AS a CROSS JOIN LATERAL unnest(a.tags) AS n (tag) WHERE a.kind = 'opt_out'
 ORDER BY a.tenant_id, a.from_id, n.tag, a.event_time DESC, a.event_id DESC
ON CONFLICT (tenant_id, asset_id, tag) DO UPDATE SET
    holds = excluded.holds, actor = excluded.actor, clock_time = excluded.clock_time, clock_id = excluded.clock_id
WHERE (excluded.clock_time, excluded.clock_id) > (t.clock_time, t.clock_id)

-- name: merge_definitions
-- LineageApplier, for every batch.
INSERT INTO tag_definitions AS t
SELECT DISTINCT ON (tenant_id, tags[1])
       tenant_id, tags[1], holds, coalesce((body ->> 'lineage')::boolean, false),
       coalesce((body ->> 'containment')::boolean, false), coalesce((body ->> 'indirect')::boolean, false),
       coalesce((body ->> 'stopped_by_masking')::boolean, true), body, actor, event_time, event_id
  FROM applying WHERE kind = 'definition'
 ORDER BY tenant_id, tags[1], event_time DESC, event_id DESC
ON CONFLICT (tenant_id, tag) DO UPDATE SET
    holds = excluded.holds, along_lineage = excluded.along_lineage, along_containment = excluded.along_containment,
    along_indirect = excluded.along_indirect, stopped_by_masking = excluded.stopped_by_masking, body = excluded.body,
    actor = excluded.actor, clock_time = excluded.clock_time, clock_id = excluded.clock_id
WHERE (excluded.clock_time, excluded.clock_id) > (t.clock_time, t.clock_id)

-- name: merge_incidents
-- LineageApplier, for every batch: the rule is in functions/incidents.sql.
DO $$ BEGIN PERFORM apply_incident_steps(); END $$
