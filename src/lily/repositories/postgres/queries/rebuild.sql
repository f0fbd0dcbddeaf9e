-- What a recomputation of all effective tags reads, and how it repairs. `{tenant}` is a condition on tenant_id.

-- name: positions
-- Rebuild: how far propagation has come, with all tenants, and how far it could.
SELECT l.lane, coalesce(least(p.seq, (SELECT min(a.seq) FROM propagation_arrears AS a WHERE a.lane = l.lane)), 0),
       coalesce(CASE l.lane WHEN 'lineage' THEN (SELECT max(seq) FROM lineage_events)
            ELSE lane_end(l.lane) END, 0)
  FROM unnest('{lineage,structural,leaf}'::text[]) AS l (lane)
  LEFT JOIN propagation_positions AS p ON p.lane = l.lane
 ORDER BY l.lane

-- name: pages
-- Rebuild: how large a table is; it is read in parts of so many pages.
SELECT (pg_relation_size(%(table)s::regclass) / current_setting('block_size')::bigint)::bigint

-- name: unrooted
-- Rebuild: facts from which following their support leads to no asserted one, by tenant and tag.
WITH RECURSIVE resting AS (
    SELECT f.tenant_id, f.asset_id, f.tag, f.is_partial FROM effective_tags AS f WHERE f.is_asserted
    UNION ALL
    SELECT f.tenant_id, f.asset_id, f.tag, f.is_partial FROM resting AS r
      JOIN effective_tags AS f ON f.via_from = r.asset_id AND f.tag = r.tag AND f.tenant_id = r.tenant_id
           AND f.via_is_partial = r.is_partial
)
SELECT f.tenant_id, f.tag, count(*) FROM (
    SELECT tenant_id, asset_id, tag, is_partial FROM effective_tags
    EXCEPT SELECT tenant_id, asset_id, tag, is_partial FROM resting) AS f
 GROUP BY f.tenant_id, f.tag

-- name: hold_positions
-- Rebuild, first in the transaction of a repair: a run of propagation that has begun is waited for, and one that
-- begins meanwhile finds its position changed and starts anew.
UPDATE propagation_positions SET seq = seq RETURNING lane, seq

-- name: create_rebuilt
-- Rebuild, in the transaction of a repair.
CREATE TEMPORARY TABLE rebuilt (
    tenant_id text, asset_id text, tag text, is_partial boolean, is_asserted boolean, via_from text, via_type text,
    via_is_partial boolean
) ON COMMIT DROP;
CREATE TEMPORARY TABLE rebuilt_tags (tenant_id text, tag text, PRIMARY KEY (tenant_id, tag)) ON COMMIT DROP;
CREATE TEMPORARY TABLE replaced (LIKE effective_tags) ON COMMIT DROP

-- name: take_facts
-- Rebuild, in the transaction of a repair: all facts of the tags that were wrong somewhere.
WITH taken AS (
    DELETE FROM effective_tags AS f USING rebuilt_tags AS t WHERE f.tenant_id = t.tenant_id AND f.tag = t.tag
    RETURNING f.*
)
INSERT INTO replaced SELECT * FROM taken

-- name: put_facts
-- Rebuild, in the transaction of a repair: what was right keeps since when and why.
INSERT INTO effective_tags
SELECT b.tenant_id, b.asset_id, b.tag, b.is_partial, b.is_asserted, b.via_from, b.via_type, b.via_is_partial,
       coalesce(o.since, transaction_timestamp()), coalesce(o.cause, %(cause)s)
  FROM rebuilt AS b
  LEFT JOIN replaced AS o ON o.tenant_id = b.tenant_id AND o.asset_id = b.asset_id AND o.tag = b.tag
       AND o.is_partial = b.is_partial

-- name: tell_repairs
-- Rebuild, in the transaction of a repair: one change per asset whose tags are different now.
INSERT INTO tag_changes (tenant_id, asset_id, event_id, cause, added, removed, reasons)
SELECT tenant_id, asset_id, gen_random_uuid(), %(cause)s,
       coalesce(array_agg(tag ORDER BY tag) FILTER (WHERE is_there), '{}'),
       coalesce(array_agg(tag ORDER BY tag) FILTER (WHERE NOT is_there), '{}'),
       jsonb_object_agg(tag, jsonb_build_object('cause', %(cause)s::uuid, 'rebuilt', true))
  FROM (
    SELECT tenant_id, asset_id, tag, bool_or(is_new) AS is_there FROM (
        SELECT DISTINCT tenant_id, asset_id, tag, true AS is_new FROM rebuilt
        UNION ALL
        SELECT DISTINCT tenant_id, asset_id, tag, false FROM replaced) AS f
     GROUP BY tenant_id, asset_id, tag HAVING count(*) = 1) AS changed
 GROUP BY tenant_id, asset_id

-- name: delete_edge
-- Rebuild, in the transaction of a repair.
DELETE FROM edges WHERE tenant_id = %s AND from_id = %s AND to_id = %s AND relationship_type = %s

-- name: put_edge
-- Rebuild, in the transaction of a repair.
INSERT INTO edges VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)

-- name: delete_pair
-- Rebuild, in the transaction of a repair.
DELETE FROM refined_pairs WHERE tenant_id = %s AND from_id = %s AND to_id = %s

-- name: put_pair
-- Rebuild, in the transaction of a repair.
INSERT INTO refined_pairs VALUES (%s, %s, %s)

-- name: notify
-- Rebuild, in the transaction of a repair: those who wait look again.
NOTIFY lily_applied

-- name: roots
-- Rebuild, read by Spark in parts of `assets`: where tags begin, and how each of them spreads.
SELECT a.tenant_id, a.asset_id, t.tag, r.along_lineage, r.along_containment, r.along_indirect, r.stopped_by_masking
  FROM assets AS a
 CROSS JOIN LATERAL roots_on(a.tenant_id, a.asset_id) AS t (tag)
 CROSS JOIN LATERAL tag_rule(a.tenant_id, t.tag) AS r
 WHERE {tenant} AND {part} AND is_heard(a.tenant_id, a.asset_id)
   AND (a.source_tags IS NOT NULL OR a.user_tags IS NOT NULL OR a.tenant_id = ANY(ARRAY(
        SELECT d.tenant_id FROM tag_definitions AS d WHERE d.tag = ANY('{{@owner:*,@term:*,@retention:*}}') AND d.holds)))

-- name: single_roots
-- Rebuild, read by Spark in parts of `tag_assertions`: the same for assets of which single tags were spoken about.
SELECT a.tenant_id, a.asset_id, t.tag, r.along_lineage, r.along_containment, r.along_indirect, r.stopped_by_masking
  FROM (SELECT DISTINCT tenant_id, asset_id FROM tag_assertions AS a WHERE {tenant} AND {part}) AS a
 CROSS JOIN LATERAL roots_on(a.tenant_id, a.asset_id) AS t (tag)
 CROSS JOIN LATERAL tag_rule(a.tenant_id, t.tag) AS r
 WHERE is_heard(a.tenant_id, a.asset_id)

-- name: edge_assertions
-- Rebuild, read by Spark.
SELECT tenant_id, from_id, to_id, relationship_type, source, holds, is_indirect, is_masking, subtype, blocked_tags,
       clock_time, clock_id::text
  FROM edge_assertions AS a WHERE {tenant} AND {part}

-- name: edges
-- Rebuild, read by Spark.
SELECT * FROM edges AS a WHERE {tenant} AND {part}

-- name: refined_pairs
-- Rebuild, read by Spark.
SELECT * FROM refined_pairs AS a WHERE {tenant} AND {part}

-- name: effective_tags
-- Rebuild, read by Spark.
SELECT tenant_id, asset_id, tag, is_partial, is_asserted FROM effective_tags AS a WHERE {tenant} AND {part}

-- name: opt_outs
-- Rebuild, read by Spark in parts of `tag_opt_outs`.
SELECT tenant_id, asset_id, tag FROM tag_opt_outs AS a WHERE {tenant} AND {part} AND holds

-- name: gone
-- Rebuild, read by Spark in parts of `assets`: what is out of the way.
SELECT tenant_id, asset_id FROM assets AS a
 WHERE {tenant} AND {part} AND (a.is_deleted OR a.asset_name IS NULL OR a.asset_type IS NULL)
