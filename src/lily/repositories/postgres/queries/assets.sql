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
SELECT waiting.ticket, applied.events, dead.events, applied.outcome, dead.reason, dead.detail
  FROM unnest(%(tickets)s::bigint[], %(tenants)s::text[], %(firsts)s::uuid[], %(lasts)s::uuid[])
       AS waiting (ticket, tenant_id, first, last)
 CROSS JOIN LATERAL (
       SELECT count(*) AS events, min(c.outcome) AS outcome
         FROM changes c
        WHERE c.tenant_id = waiting.tenant_id AND c.event_id BETWEEN waiting.first AND waiting.last) applied
 CROSS JOIN LATERAL (
       SELECT count(DISTINCT d.event_id) AS events, min(d.reason) AS reason, min(d.detail) AS detail
         FROM dead_letters d
        WHERE d.tenant_id = waiting.tenant_id
          AND d.event_id BETWEEN waiting.first::text AND waiting.last::text) dead

-- name: list_dead_letters
-- Visibility.refusals: which events of a batch became dead letters, and why.
SELECT d.event_id, d.reason, d.detail
  FROM dead_letters d
 WHERE d.tenant_id = %(tenant_id)s AND d.event_id BETWEEN %(first)s::uuid::text AND %(last)s::uuid::text
 ORDER BY d.event_id, d.seq
