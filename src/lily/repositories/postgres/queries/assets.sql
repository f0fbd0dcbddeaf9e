-- What readers ask about assets and about what events did to them.

-- name: find_asset
-- PostgresAssets.find: a visible asset; one that was only spoken about, or purged, is not.
SELECT a.version, a.asset_type, asset_document(a)::text
  FROM assets a
 WHERE a.tenant_id = %(tenant_id)s AND a.asset_id = %(asset_id)s
   AND a.asset_name IS NOT NULL AND a.asset_type IS NOT NULL

-- name: find_asset_as_of
-- PostgresAssets.find_as_of: the document after the last event up to that time, NULL if that was a purge.
SELECT c.version, c.asset_type, asset_document(c)::text
  FROM changes c
 WHERE c.tenant_id = %(tenant_id)s AND c.asset_id = %(asset_id)s AND c.event_time <= %(as_of)s
   AND (c.asset_name IS NOT NULL OR c.outcome = 'purged')
 ORDER BY c.event_time DESC, c.event_id DESC
 LIMIT 1

-- name: list_history
-- PostgresAssets.history: newest first, from just before the given place.
SELECT c.version, c.seq, c.event_id, c.event_time, c.applied_at, c.outcome, c.actor, c.fields,
       asset_document(c)
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
  FROM count_settled(%(tickets)s::bigint[], %(tenants)s::text[], %(firsts)s::uuid[], %(lasts)s::uuid[])

-- name: list_dead_letters
-- Visibility.refusals: which events of a batch became dead letters, and why.
SELECT d.event_id, d.reason, d.detail
  FROM dead_letters d
 WHERE d.tenant_id = %(tenant_id)s AND d.event_id BETWEEN %(first)s::uuid::text AND %(last)s::uuid::text
 ORDER BY d.event_id, d.seq
