-- What propagation reads and keeps; the rule itself is in functions/lineage.sql and functions/propagation.sql.

-- name: create_work_tables
-- Propagator, once per connection.
-- These two are without keys: to keep one took 5 µs per asset and 10 per edge, longer than to collect them. An asset is
-- there once after `unite_changed_assets`, an edge may be there twice.
CREATE TEMPORARY TABLE changed_assets (
    tenant_id text, asset_id text, cause uuid, look_upstream boolean, place integer
) ON COMMIT DELETE ROWS;
CREATE TEMPORARY TABLE changed_edges (
    tenant_id text, from_id text, to_id text, relationship_type text, cause uuid
) ON COMMIT DELETE ROWS;
CREATE TEMPORARY TABLE changed_rules (
    tenant_id text, tag text, cause uuid, PRIMARY KEY (tenant_id, tag)
) ON COMMIT DELETE ROWS;
CREATE TEMPORARY TABLE reviewed_pairs (tenant_id text, from_id text, to_id text, cause uuid) ON COMMIT DELETE ROWS;
CREATE TEMPORARY TABLE wanted_roots (
    tenant_id text, asset_id text, tag text, cause uuid, PRIMARY KEY (tenant_id, asset_id, tag)
) ON COMMIT DELETE ROWS;
CREATE TEMPORARY TABLE rules (
    tenant_id text, tag text, along_lineage boolean, along_containment boolean, along_indirect boolean,
    stopped_by_masking boolean, types text[], has_opt_outs boolean, may_be_partial boolean,
    PRIMARY KEY (tenant_id, tag)
) ON COMMIT DELETE ROWS;
CREATE TEMPORARY TABLE lost_facts (
    round integer, tenant_id text, asset_id text, tag text, is_partial boolean, cause uuid, origin text,
    row_id tid, PRIMARY KEY (asset_id, tag, is_partial, tenant_id)
) ON COMMIT DELETE ROWS;
CREATE INDEX ON lost_facts (round);
CREATE TEMPORARY TABLE gained_facts (
    round integer, tenant_id text, asset_id text, tag text, is_partial boolean, only_to text, is_new boolean,
    cause uuid, seed text, seed_is_partial boolean, via_from text, via_type text
) ON COMMIT DELETE ROWS;
CREATE INDEX ON gained_facts (round);
CREATE TEMPORARY TABLE seed_origins (
    tenant_id text, tag text, seed text, seed_is_partial boolean, origin text,
    PRIMARY KEY (tenant_id, tag, seed, seed_is_partial)
) ON COMMIT DELETE ROWS;
CREATE TEMPORARY VIEW moved_facts AS
SELECT g.tenant_id, g.asset_id, g.tag, g.cause, true AS came, g.via_from, g.via_type, o.origin
  FROM gained_facts AS g
  LEFT JOIN seed_origins AS o ON o.tenant_id = g.tenant_id AND o.tag = g.tag AND o.seed = g.seed
       AND o.seed_is_partial = g.seed_is_partial
 WHERE g.is_new
 UNION ALL
SELECT l.tenant_id, l.asset_id, l.tag, l.cause, false, NULL, NULL, l.origin FROM lost_facts AS l

-- name: last_seqs
-- Propagator: how far it has come in each lane, and how far it could get.
SELECT l.lane, coalesce(p.seq, 0),
       CASE l.lane WHEN 'lineage' THEN (SELECT max(seq) FROM lineage_events)
            ELSE lane_end(l.lane) END
  FROM unnest('{lineage,structural,leaf}'::text[]) AS l (lane)
  LEFT JOIN propagation_positions AS p ON p.lane = l.lane

-- name: list_arrears
-- Propagator: the tenants that are followed by themselves, the oldest first.
SELECT a.tenant_id, jsonb_object_agg(a.lane, a.seq), bool_and(a.is_caught_up)
  FROM propagation_arrears AS a GROUP BY a.tenant_id ORDER BY min(a.since), a.tenant_id

-- name: fall_behind
-- Propagator: from now on a tenant is followed by itself, from where it is.
INSERT INTO propagation_arrears (tenant_id, lane, seq)
SELECT %(tenant_id)s, l.lane, coalesce(p.seq, 0)
  FROM unnest('{lineage,structural,leaf}'::text[]) AS l (lane)
  LEFT JOIN propagation_positions AS p ON p.lane = l.lane
ON CONFLICT (tenant_id, lane) DO UPDATE SET is_caught_up = false

-- name: catch_up
-- Propagator, in the transaction of what it did: how far a tenant that is followed by itself is now.
UPDATE propagation_arrears SET seq = %(seq)s WHERE tenant_id = %(tenant_id)s AND lane = %(lane)s

-- name: ask_to_rejoin
-- Propagator: a tenant is where the others are, with nothing left to tell.
UPDATE propagation_arrears AS a SET is_caught_up = true WHERE a.tenant_id = %(tenant_id)s
   AND NOT EXISTS (SELECT FROM untold_tag_changes AS u WHERE u.tenant_id = a.tenant_id)

-- name: rejoin
-- Propagator, in the transaction that followed these tenants with all others.
DELETE FROM propagation_arrears WHERE tenant_id = ANY(%(tenants)s)

-- name: tell
-- Propagator: what is different now, as a function finds it, is to be told in this order.
INSERT INTO tag_changes (tenant_id, asset_id, event_id, cause, added, removed, reasons)
SELECT d.tenant_id, d.asset_id, gen_random_uuid(), d.cause, d.added, d.removed,
       told_reasons(d.reasons, d.added, d.removed, d.cause, d.via_from, d.via_type, d.origin)
  FROM {differences}() AS d

-- name: tell_later
-- Propagator: the same, to be put in order by the one writer of that; what is told alike is kept together. Returns how
-- many changes each row holds.
INSERT INTO untold_tag_changes (
    tenant_id, assets, asset_ids, cause, added, removed, reasons, via_froms, via_types, origin, applied_at)
SELECT d.tenant_id, count(*), array_agg(d.asset_id), d.cause, d.added, d.removed, array_agg(d.reasons),
       array_agg(d.via_from), array_agg(d.via_type), d.origin, clock_timestamp()
  FROM (SELECT *, row_number() OVER () / 1000 AS part FROM {differences}()) AS d
 GROUP BY d.part, d.tenant_id, d.cause, d.added, d.removed, d.origin
RETURNING assets

-- name: tell_some
-- Propagator, in a transaction of its own or with what it did: about `most` changes of each tenant, in their order.
WITH taken AS (
    DELETE FROM untold_tag_changes AS u WHERE u.ctid = ANY(ARRAY(
        SELECT n.row_id FROM (SELECT DISTINCT a.tenant_id FROM propagation_arrears AS a) AS a
         CROSS JOIN LATERAL (
               SELECT u.ctid AS row_id, sum(u.assets) OVER (ORDER BY u.number) - u.assets AS before
                 FROM untold_tag_changes AS u WHERE u.tenant_id = a.tenant_id
                ORDER BY u.number LIMIT %(most)s) AS n
         WHERE n.before < %(most)s))
    RETURNING u.*
)
INSERT INTO tag_changes (tenant_id, asset_id, event_id, cause, added, removed, reasons, applied_at)
SELECT t.tenant_id, c.asset_id, gen_random_uuid(), t.cause, t.added, t.removed,
       told_reasons(c.reasons, t.added, t.removed, t.cause, c.via_from, c.via_type, t.origin), t.applied_at
  FROM taken AS t
 CROSS JOIN LATERAL unnest(t.asset_ids, t.reasons, t.via_froms, t.via_types) WITH ORDINALITY
       AS c (asset_id, reasons, via_from, via_type, place)
 ORDER BY t.number, c.place

-- name: is_anything_left
-- Propagator: whether anything may follow on. From incidents nothing does, nor from assets without facts and edges.
SELECT EXISTS (SELECT FROM changed_assets) OR EXISTS (SELECT FROM changed_edges) OR EXISTS (SELECT FROM changed_rules)

-- name: collect_asset_changes
-- Propagator: the assets of a lane whose tags, or whose being there, may have changed. A new asset without tags
-- that is not deleted changes nothing: until now it was not in the way either.
INSERT INTO changed_assets
SELECT DISTINCT ON (c.tenant_id, c.asset_id) c.tenant_id, c.asset_id, c.event_id,
       bool_or(c.fields & 1027 <> 0 AND NOT (c.outcome = 'created' AND c.version = 1))
           OVER (PARTITION BY c.tenant_id, c.asset_id),
       CASE %(lane)s WHEN 'structural' THEN 2 ELSE 3 END
  FROM changes AS c
 WHERE c.lane = %(lane)s AND c.seq > %(after)s AND c.seq <= %(upto)s AND c.outcome <> 'refused'
   AND (%(tenant_id)s::text IS NULL AND c.tenant_id <> ALL(%(apart)s) OR c.tenant_id = %(tenant_id)s)
   AND (c.fields & 1411 <> 0 AND NOT (
            c.outcome = 'created' AND c.version = 1 AND c.source_tags IS NULL AND c.user_tags IS NULL
            AND c.is_deleted IS NOT TRUE AND c.asset_name IS NOT NULL) -- else a purge has made the row forget what it knew
        OR c.outcome IN ('pending', 'purged')
        OR c.fields & 580 <> 0 AND c.tenant_id = ANY(ARRAY( -- owner, terms and metadata, where they spread
           SELECT d.tenant_id FROM tag_definitions AS d WHERE d.tag = ANY('{@owner:*,@term:*,@retention:*}') AND d.holds))
        OR EXISTS (SELECT FROM tag_assertions AS t WHERE t.tenant_id = c.tenant_id AND t.asset_id = c.asset_id))
 ORDER BY c.tenant_id, c.asset_id, c.seq DESC

-- name: collect_edge_changes
-- Propagator: the edges that were spoken about.
INSERT INTO changed_edges
SELECT DISTINCT ON (tenant_id, from_id, to_id, relationship_type)
       tenant_id, from_id, to_id, relationship_type, event_id
  FROM lineage_events WHERE seq > %(after)s AND seq <= %(upto)s AND kind = 'edge'
   AND (%(tenant_id)s::text IS NULL AND tenant_id <> ALL(%(apart)s) OR tenant_id = %(tenant_id)s)
 ORDER BY tenant_id, from_id, to_id, relationship_type, seq DESC

-- name: collect_tagged_assets
-- Propagator: the assets whose tags or opt-outs were spoken about.
INSERT INTO changed_assets
SELECT DISTINCT ON (tenant_id, from_id) tenant_id, from_id, event_id,
       bool_or(kind = 'opt_out') OVER (PARTITION BY tenant_id, from_id), 0
  FROM lineage_events WHERE seq > %(after)s AND seq <= %(upto)s AND kind IN ('tag', 'opt_out')
   AND (%(tenant_id)s::text IS NULL AND tenant_id <> ALL(%(apart)s) OR tenant_id = %(tenant_id)s)
 ORDER BY tenant_id, from_id, seq DESC

-- name: collect_rule_changes
-- Propagator: the tags whose definition was spoken about. What was said about all owners, terms or retention classes
-- is about each of them, and about every asset that has some; what was said about `*`, about what is out of the way.
WITH said AS MATERIALIZED (
    SELECT DISTINCT ON (tenant_id, tags[1]) tenant_id, tags[1] AS tag, event_id
      FROM lineage_events WHERE seq > %(after)s AND seq <= %(upto)s AND kind = 'definition'
       AND (%(tenant_id)s::text IS NULL AND tenant_id <> ALL(%(apart)s) OR tenant_id = %(tenant_id)s)
     ORDER BY tenant_id, tags[1], seq DESC
), ruled AS (
    INSERT INTO changed_rules
    SELECT s.* FROM said AS s WHERE s.tag <> '*' AND s.tag !~ '^@(owner|term|retention):'
     UNION ALL
    SELECT DISTINCT s.tenant_id, f.tag, s.event_id FROM said AS s
      JOIN effective_tags AS f ON f.tenant_id = s.tenant_id AND starts_with(f.tag, rtrim(s.tag, '*'))
     WHERE s.tag ~ '^@(owner|term|retention):'
)
INSERT INTO changed_assets
SELECT DISTINCT ON (s.tenant_id, a.asset_id) s.tenant_id, a.asset_id, s.event_id, false, 1 FROM said AS s
 -- For each of them, mostly none: the planner would rather read all assets in their order.
 CROSS JOIN LATERAL (
       SELECT a.asset_id FROM assets AS a WHERE a.tenant_id = s.tenant_id AND CASE s.tag
              WHEN '@owner:*' THEN a.asset_owner IS NOT NULL
              WHEN '@term:*' THEN a.business_terms IS NOT NULL
              WHEN '@retention:*' THEN a.metadata ->> 'retention_class' IS NOT NULL
              WHEN '*' THEN a.is_deleted OR a.asset_name IS NULL OR a.asset_type IS NULL END OFFSET 0) AS a
 WHERE s.tag = ANY('{@owner:*,@term:*,@retention:*,*}')

-- name: unite_changed_assets
-- Propagator, when an asset may be there more than once: the first in `place` is the cause.
WITH found AS (
    DELETE FROM changed_assets RETURNING *
)
INSERT INTO changed_assets
SELECT DISTINCT ON (tenant_id, asset_id) tenant_id, asset_id, cause,
       bool_or(look_upstream) OVER (PARTITION BY tenant_id, asset_id), place
  FROM found ORDER BY tenant_id, asset_id, place

-- name: attach_incidents
-- Propagator: the rule is in functions/incidents.sql.
SELECT attach_incidents(%(lane)s, %(after)s, %(upto)s)

-- name: keep_position
-- Propagator, in the transaction of what it did.
INSERT INTO propagation_positions VALUES (%(lane)s, %(seq)s) ON CONFLICT (lane) DO UPDATE SET seq = excluded.seq

-- name: notify
-- Propagator, in the transaction of what it did: those who wait look again.
NOTIFY lily_applied

-- name: listen
-- Propagation: every batch of every lane says so.
LISTEN lily_applied
