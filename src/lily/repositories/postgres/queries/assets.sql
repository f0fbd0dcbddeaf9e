-- What readers ask about assets and about what events did to them.

-- name: find_asset
-- PostgresAssets.find: a visible asset; one that was only spoken about, or purged, is not.
SELECT a.version, shown_document(a), a.asset_id, a.asset_type, a.data_source, a.asset_owner,
       a.source_tags, a.user_tags, further_tags(a.tenant_id, a.asset_id), a.is_deleted,
       EXISTS (SELECT FROM incidents AS i
                WHERE i.tenant_id = a.tenant_id AND i.asset_id IS NOT NULL AND i.status <> 'resolved')
  FROM assets a
 WHERE a.tenant_id = %(tenant_id)s AND a.asset_id = %(asset_id)s
   AND a.asset_name IS NOT NULL AND a.asset_type IS NOT NULL

-- name: list_traits
-- PostgresAssets.traits: what access can depend on, and whether the asset is visible.
SELECT a.asset_name IS NOT NULL AND a.asset_type IS NOT NULL, a.asset_id, a.asset_type, a.data_source,
       a.asset_owner, a.source_tags, a.user_tags, further_tags(a.tenant_id, a.asset_id), a.is_deleted
  FROM assets a
 WHERE a.tenant_id = %(tenant_id)s AND a.asset_id = ANY(%(asset_ids)s::text[])

-- name: list_containers
-- PostgresAssets.containers: every asset the given ones are contained in, at any depth.
WITH RECURSIVE contained AS (
    SELECT e.to_id AS asset_id, e.from_id AS container
      FROM edges e
     WHERE e.tenant_id = %(tenant_id)s AND e.to_id = ANY(%(asset_ids)s::text[])
       AND e.relationship_type = 'contains'
     UNION
    SELECT c.asset_id, e.from_id
      FROM contained c
      JOIN edges e ON e.tenant_id = %(tenant_id)s AND e.to_id = c.container
       AND e.relationship_type = 'contains'
)
SELECT asset_id, array_agg(container) FROM contained GROUP BY asset_id

-- name: find_asset_as_of
-- PostgresAssets.find_as_of: the document after the last event up to that time, NULL if that was a purge.
SELECT c.version, asset_json(c), c.asset_id, c.asset_type, c.data_source, c.asset_owner,
       c.source_tags, c.user_tags,
       tags_at(c.tenant_id, c.asset_id, greatest(c.applied_at, %(as_of)s)), c.is_deleted
  FROM changes c
 WHERE c.tenant_id = %(tenant_id)s AND c.asset_id = %(asset_id)s AND c.event_time <= %(as_of)s
   AND (c.asset_name IS NOT NULL OR c.outcome = 'purged')
 ORDER BY c.event_time DESC, c.event_id DESC
 LIMIT 1

-- name: list_history
-- PostgresAssets.history: newest first, from just before the given place.
SELECT c.version, c.seq, c.event_id, c.event_time, c.applied_at, c.outcome, c.actor,
       fields_json(c.fields)::json, asset_json(c)::json, tags_at(c.tenant_id, c.asset_id, c.applied_at)
  FROM changes c
 WHERE c.tenant_id = %(tenant_id)s AND c.asset_id = %(asset_id)s
   AND c.outcome NOT IN ('unchanged', 'pending', 'refused')
   AND (%(before_version)s::int IS NULL
        OR (c.version, c.seq) < (%(before_version)s::int, %(before_seq)s::bigint))
 ORDER BY c.version DESC, c.seq DESC
 LIMIT %(limit)s

-- name: count_settled
-- Visibility: for every waiting batch, how many of its events were applied and how many refused as dead
-- letters; of a batch of one also what came of it.
SELECT ticket, applied, dead, outcome, reason, detail
  FROM count_settled(%(tickets)s::bigint[], %(tenants)s::text[], %(firsts)s::uuid[], %(lasts)s::uuid[],
                     %(follow)s::boolean[])

-- name: list_dead_letters
-- Visibility.refusals: which events of a batch became dead letters, and why.
SELECT d.event_id, d.reason, d.detail
  FROM dead_letters d
 WHERE d.tenant_id = %(tenant_id)s AND d.event_id BETWEEN %(first)s::uuid::text AND %(last)s::uuid::text
 ORDER BY d.event_id, d.seq
