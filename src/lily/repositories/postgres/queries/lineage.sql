-- What readers ask about lineage and tags. A traversal asks once per hop, for its whole frontier.

-- name: edges_downstream
-- PostgresLineage.step, always in the same order, that of the index: pages of any size go on where others ended. One
-- scan of it for a whole frontier takes a third of what a look per asset does. One row of long texts, separated by a
-- character that neither ids nor JSON have, is read in a third of the time many rows take.
SELECT string_agg(e.from_id, E'\x1f'), string_agg(e.to_id, E'\x1f'), string_agg(e.relationship_type, E'\x1f')
  FROM (SELECT e.from_id, e.to_id, e.relationship_type FROM edges AS e
         WHERE e.tenant_id = %(tenant_id)s AND e.from_id = ANY(string_to_array(%(frontier)s, E'\x1f'))
           AND e.relationship_type = ANY(%(types)s)
         ORDER BY e.from_id, e.relationship_type, e.to_id LIMIT %(most)s) AS e

-- name: edges_upstream
-- PostgresLineage.step
SELECT string_agg(e.from_id, E'\x1f'), string_agg(e.to_id, E'\x1f'), string_agg(e.relationship_type, E'\x1f')
  FROM (SELECT e.from_id, e.to_id, e.relationship_type FROM edges AS e
         WHERE e.to_id = ANY(string_to_array(%(frontier)s, E'\x1f')) AND e.tenant_id = %(tenant_id)s
           AND e.relationship_type = ANY(%(types)s)
         ORDER BY e.to_id, e.relationship_type, e.from_id LIMIT %(most)s) AS e

-- name: describe_edges
-- PostgresLineage.described: what is shown of some edges besides their ends, in their order.
SELECT string_agg(coalesce(edge_about(e.is_indirect, e.is_masking, e.subtype, e.blocked_tags, e.sources), ''), E'\x1f'
           ORDER BY w.number), string_agg(coalesce(e.asserted_at::text, ''), E'\x1f' ORDER BY w.number)
  FROM unnest(%(from_ids)s::text[], %(to_ids)s::text[], %(types)s::text[])
       WITH ORDINALITY AS w (from_id, to_id, relationship_type, number)
  LEFT JOIN LATERAL (
       SELECT * FROM edges AS e WHERE e.tenant_id = %(tenant_id)s AND e.from_id = w.from_id AND e.to_id = w.to_id
          AND e.relationship_type = w.relationship_type OFFSET 0) AS e ON true

-- name: described_downstream
-- PostgresLineage.step, where most edges are shown: to describe them as they are met takes a third of looking for each
-- again (`describe_edges`), and three times as long as not to describe them.
SELECT string_agg(e.from_id, E'\x1f'), string_agg(e.to_id, E'\x1f'), string_agg(e.relationship_type, E'\x1f'),
       string_agg(edge_about(e.is_indirect, e.is_masking, e.subtype, e.blocked_tags, e.sources), E'\x1f'),
       string_agg(e.asserted_at::text, E'\x1f')
  FROM (SELECT * FROM edges AS e
         WHERE e.tenant_id = %(tenant_id)s AND e.from_id = ANY(string_to_array(%(frontier)s, E'\x1f'))
           AND e.relationship_type = ANY(%(types)s)
         ORDER BY e.from_id, e.relationship_type, e.to_id LIMIT %(most)s) AS e

-- name: described_upstream
-- PostgresLineage.step, with what is shown of each edge.
SELECT string_agg(e.from_id, E'\x1f'), string_agg(e.to_id, E'\x1f'), string_agg(e.relationship_type, E'\x1f'),
       string_agg(edge_about(e.is_indirect, e.is_masking, e.subtype, e.blocked_tags, e.sources), E'\x1f'),
       string_agg(e.asserted_at::text, E'\x1f')
  FROM (SELECT * FROM edges AS e
         WHERE e.to_id = ANY(string_to_array(%(frontier)s, E'\x1f')) AND e.tenant_id = %(tenant_id)s
           AND e.relationship_type = ANY(%(types)s)
         ORDER BY e.to_id, e.relationship_type, e.from_id LIMIT %(most)s) AS e

-- name: edges_as_of
-- PostgresLineage.step, for a time: what every source had last said by then. One edge per row, made of what they say
-- as merge_edges makes it.
SELECT string_agg(e.from_id, E'\x1f'), string_agg(e.to_id, E'\x1f'), string_agg(e.relationship_type, E'\x1f'),
       string_agg(e.about, E'\x1f'), string_agg(e.asserted_at::text, E'\x1f')
  FROM (
SELECT s.from_id, s.to_id, s.relationship_type, max(s.event_time) AS asserted_at, edge_about(
           coalesce(((array_agg(s.body ORDER BY s.event_time DESC, s.event_id DESC))[1] ->> 'is_indirect')::boolean, false),
           coalesce(((array_agg(s.body ORDER BY s.event_time DESC, s.event_id DESC))[1] ->> 'is_masking')::boolean, false),
           (array_agg(s.body ORDER BY s.event_time DESC, s.event_id DESC))[1] ->> 'subtype',
           coalesce((SELECT array_agg(DISTINCT t ORDER BY t) FROM unnest(string_to_array(
               string_agg(array_to_string(s.tags, E'\x1f'), E'\x1f'), E'\x1f')) AS t WHERE t <> ''), '{}'),
           array_agg(s.source ORDER BY s.source)) AS about
  FROM (
    SELECT DISTINCT ON (l.from_id, l.to_id, l.relationship_type, l.source) l.*
      FROM lineage_events AS l
     WHERE l.tenant_id = %(tenant_id)s AND l.kind = 'edge' AND l.event_time <= %(as_of)s
       AND l.relationship_type = ANY(%(types)s)
       AND CASE WHEN %(upstream)s THEN l.to_id = ANY(string_to_array(%(frontier)s, E'\x1f'))
                ELSE l.from_id = ANY(string_to_array(%(frontier)s, E'\x1f')) END
     ORDER BY l.from_id, l.to_id, l.relationship_type, l.source, l.event_time DESC, l.event_id DESC
  ) AS s
 WHERE s.holds AND NOT EXISTS (
       SELECT FROM lineage_events AS r
        WHERE r.from_id = s.from_id AND r.tenant_id = %(tenant_id)s AND r.to_id = s.to_id AND r.kind = 'edge'
          AND r.relationship_type = s.relationship_type AND r.source = '*' AND r.event_time <= %(as_of)s
          AND (r.event_time, r.event_id) > (s.event_time, s.event_id))
 GROUP BY s.from_id, s.to_id, s.relationship_type
 LIMIT %(most)s) AS e

-- name: list_nodes
-- PostgresLineage.nodes: what is shown of assets that are on the way.
SELECT a.asset_id, a.asset_name, a.asset_type, a.asset_owner, a.data_source, coalesce(a.is_deleted, false),
       a.asset_name IS NOT NULL AND a.asset_type IS NOT NULL
  FROM assets AS a WHERE a.tenant_id = %(tenant_id)s AND a.asset_id = ANY(string_to_array(%(asset_ids)s, E'\x1f'))

-- name: node_documents
-- PostgresLineage.node_documents: the same as JSON, in one row of long texts.
SELECT string_agg(a.asset_id, E'\x1f'), string_agg(node_opened(
           a.asset_id, a.asset_name, a.asset_type, a.asset_owner, a.data_source, a.is_deleted), E'\x1f')
  FROM assets AS a WHERE a.tenant_id = %(tenant_id)s AND a.asset_id = ANY(string_to_array(%(asset_ids)s, E'\x1f'))

-- name: list_node_tags
-- PostgresLineage.nodes and node_documents: the tags in force on them.
SELECT f.asset_id, f.tag FROM effective_tags AS f
 WHERE f.tenant_id = %(tenant_id)s AND f.asset_id = ANY(string_to_array(%(asset_ids)s, E'\x1f'))
   AND f.tag !~ '^@(owner|term|retention):'

-- name: find_column
-- PostgresLineage.column: the part of an asset with this name or id.
SELECT e.to_id FROM edges AS e
  LEFT JOIN assets AS a ON a.tenant_id = e.tenant_id AND a.asset_id = e.to_id
 WHERE e.tenant_id = %(tenant_id)s AND e.from_id = %(asset_id)s AND e.relationship_type = 'contains'
   AND (a.asset_name = %(column)s OR e.to_id = %(column)s)
 ORDER BY e.to_id LIMIT 1

-- name: edge_validity
-- PostgresLineage.validity: since when each of these edges is there without interruption, as told.
SELECT e.from_id, e.to_id, e.relationship_type,
       (SELECT min(l.event_time) FROM lineage_events AS l
         WHERE l.from_id = e.from_id AND l.tenant_id = %(tenant_id)s AND l.kind = 'edge' AND l.to_id = e.to_id
           AND l.relationship_type = e.relationship_type AND l.holds
           AND l.event_time > coalesce((
               SELECT max(r.event_time) FROM lineage_events AS r
                WHERE r.from_id = e.from_id AND r.tenant_id = %(tenant_id)s AND r.kind = 'edge' AND r.to_id = e.to_id
                  AND r.relationship_type = e.relationship_type AND NOT r.holds), '-infinity'))
  FROM unnest(%(from_ids)s::text[], %(to_ids)s::text[], %(types)s::text[]) AS e (from_id, to_id, relationship_type)

-- name: find_tags
-- PostgresTags.effective: the tags in force on an asset, and the edge each propagated one rests on.
SELECT e.tag, bool_or(e.is_asserted), min(e.via_from), min(e.via_type), min(e.since), (array_agg(e.cause))[1],
       bool_and(e.is_partial)
  FROM effective_tags AS e WHERE e.tenant_id = %(tenant_id)s AND e.asset_id = %(asset_id)s
 GROUP BY e.tag ORDER BY e.tag

-- name: find_assertions
-- PostgresTags.assertions
SELECT a.tag, a.source, a.at, a.id, a.actor, a.body FROM asserted_on(%(tenant_id)s, %(asset_id)s) AS a
 ORDER BY a.tag, a.source

-- name: find_opt_outs
-- PostgresTags.opt_outs
SELECT o.tag FROM tag_opt_outs AS o
 WHERE o.tenant_id = %(tenant_id)s AND o.asset_id = %(asset_id)s AND o.holds ORDER BY o.tag

-- name: parents_of
-- PostgresTags.origins: one hop back along what carries the tag, for a whole frontier of facts.
SELECT f.asset_id, f.is_partial, e.from_id, u.is_partial, e.relationship_type, u.is_asserted
  FROM unnest(%(assets)s::text[], %(partial)s::boolean[]) AS f (asset_id, is_partial)
 CROSS JOIN tag_rule(%(tenant_id)s, %(tag)s) AS r
 CROSS JOIN LATERAL (
       SELECT * FROM edges AS e WHERE e.to_id = f.asset_id AND e.tenant_id = %(tenant_id)s
          AND e.relationship_type = ANY(r.types) OFFSET 0) AS e
 CROSS JOIN LATERAL (
       SELECT * FROM effective_tags AS u WHERE u.tenant_id = %(tenant_id)s AND u.asset_id = e.from_id
          AND u.tag = %(tag)s OFFSET 0) AS u
 WHERE carried_as_partial(e::edges, %(tag)s, r.along_lineage, r.along_containment, r.along_indirect,
           r.stopped_by_masking, u.is_partial, r.along_containment AND EXISTS (
               SELECT FROM refined_pairs AS p WHERE p.tenant_id = %(tenant_id)s AND p.from_id = e.from_id
                  AND p.to_id = e.to_id)) = f.is_partial

-- name: children_of
-- PostgresTags.children: one hop on along what lets the tag through, for a whole frontier of facts; with what of the
-- tag is in force there already.
SELECT f.asset_id, f.is_partial, e.to_id, c.as_partial, s.is_whole, s.is_partial, s.is_asserted
  FROM unnest(%(assets)s::text[], %(partial)s::boolean[]) AS f (asset_id, is_partial)
 CROSS JOIN tag_rule(%(tenant_id)s, %(tag)s) AS r
 CROSS JOIN LATERAL (
       SELECT * FROM edges AS e WHERE e.tenant_id = %(tenant_id)s AND e.from_id = f.asset_id
          AND e.relationship_type = ANY(r.types) OFFSET 0) AS e
 CROSS JOIN LATERAL (
       SELECT carried_as_partial(e::edges, %(tag)s, r.along_lineage, r.along_containment, r.along_indirect,
                  r.stopped_by_masking, f.is_partial, r.along_containment AND EXISTS (
                      SELECT FROM refined_pairs AS p WHERE p.tenant_id = %(tenant_id)s AND p.from_id = e.from_id
                         AND p.to_id = e.to_id)) AS as_partial OFFSET 0) AS c
 CROSS JOIN LATERAL (
       SELECT coalesce(bool_or(NOT t.is_partial), false) AS is_whole, coalesce(bool_or(t.is_partial), false) AS is_partial,
              coalesce(bool_or(t.is_asserted), false) AS is_asserted
         FROM effective_tags AS t WHERE t.tenant_id = %(tenant_id)s AND t.asset_id = e.to_id AND t.tag = %(tag)s
       OFFSET 0) AS s
 WHERE c.as_partial IS NOT NULL AND NOT is_out_of_the_way(%(tenant_id)s, e.to_id)
   AND NOT EXISTS (SELECT FROM tag_opt_outs AS o WHERE o.tenant_id = %(tenant_id)s AND o.asset_id = e.to_id
                      AND o.tag = %(tag)s AND o.holds)

-- name: standing_of
-- PostgresTags.standing: what of a tag is in force on an asset, whether what is said there counts, and the words of
-- its sources, the retracting ones included.
SELECT coalesce(bool_or(NOT t.is_partial), false), coalesce(bool_or(t.is_partial), false),
       coalesce(bool_or(t.is_asserted), false), is_heard(%(tenant_id)s, %(asset_id)s),
       ARRAY(SELECT json_build_array(a.source, a.holds, a.at > clock_timestamp())
               FROM assertions_on(%(tenant_id)s, %(asset_id)s) AS a WHERE a.tag = %(tag)s)
  FROM effective_tags AS t
 WHERE t.tenant_id = %(tenant_id)s AND t.asset_id = %(asset_id)s AND t.tag = %(tag)s

-- name: list_holders
-- PostgresTags.holders: those of the assets on which a tag stands for all of them.
SELECT t.asset_id FROM effective_tags AS t
 WHERE t.tenant_id = %(tenant_id)s AND t.asset_id = ANY(%(assets)s::text[]) AND t.tag = %(tag)s AND NOT t.is_partial

-- name: list_tag_changes
-- PostgresTags.history: what happened to a tag of an asset, newest first.
SELECT t.seq, t.applied_at, t.cause, %(tag)s = ANY(t.added), t.reasons -> %(tag)s::text
  FROM tag_changes AS t
 WHERE t.tenant_id = %(tenant_id)s AND t.asset_id = %(asset_id)s
   AND (%(tag)s = ANY(t.added) OR %(tag)s = ANY(t.removed))
 ORDER BY t.seq DESC LIMIT %(most)s

-- name: find_definition
-- PostgresTags.definition: how a tag spreads, and whether somebody said so.
SELECT r.along_lineage, r.along_containment, r.along_indirect, r.stopped_by_masking, d.body, d.actor, d.clock_time
  FROM tag_rule(%(tenant_id)s, %(tag)s) AS r
  LEFT JOIN tag_definitions AS d ON d.tenant_id = %(tenant_id)s AND d.tag = %(tag)s AND d.holds

-- name: list_definitions
-- PostgresTags.definitions: the built-in tags and those somebody defined.
SELECT t.tag FROM (
    SELECT unnest('{PII,GDPR}'::text[]) AS tag
    UNION SELECT d.tag FROM tag_definitions AS d WHERE d.tenant_id = %(tenant_id)s AND d.holds) AS t ORDER BY t.tag

-- name: list_columns
-- PostgresLineage.columns: what the catalog knows to be in these tables.
SELECT e.from_id, coalesce(a.asset_name, e.to_id), e.to_id
  FROM unnest(%(asset_ids)s::text[]) AS t (asset_id)
 CROSS JOIN LATERAL (
       SELECT * FROM edges AS e WHERE e.tenant_id = %(tenant_id)s AND e.from_id = t.asset_id
          AND e.relationship_type = 'contains' LIMIT 10000) AS e
  LEFT JOIN LATERAL (
       SELECT * FROM assets AS a WHERE a.tenant_id = %(tenant_id)s AND a.asset_id = e.to_id OFFSET 0) AS a ON true
