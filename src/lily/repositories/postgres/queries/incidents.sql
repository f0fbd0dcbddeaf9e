-- What readers ask about incidents; the rule by which steps become incidents is in functions/incidents.sql.

-- name: find_incident
-- PostgresIncidents.find
SELECT i.incident_id, i.asset_id, i.status, i.opened_at,
       incident_document(i.incident_id, i.asset_id, i.said, i.opened_at, i.updated_at)::text
  FROM incidents AS i WHERE i.tenant_id = %(tenant_id)s AND i.incident_id = %(incident_id)s

-- name: list_incidents
-- PostgresIncidents.page: newest first, from just after a place.
SELECT i.incident_id, i.asset_id, i.status, i.opened_at,
       incident_document(i.incident_id, i.asset_id, i.said, i.opened_at, i.updated_at)::text
  FROM incidents AS i
 WHERE i.tenant_id = %(tenant_id)s
   AND (%(status)s::text IS NULL OR i.status = %(status)s)
   AND (NOT %(unresolved)s OR i.status <> 'resolved')
   AND (%(severity)s::text IS NULL OR i.severity = %(severity)s)
   AND (%(owner)s::text IS NULL OR i.owner = %(owner)s)
   AND (%(source)s::text IS NULL OR i.source = %(source)s)
   AND (%(asset_ids)s::text[] IS NULL OR i.asset_id = ANY(%(asset_ids)s))
   AND (%(is_attached)s::boolean IS NULL OR (i.asset_id IS NOT NULL) = %(is_attached)s)
   AND (%(before)s::timestamptz IS NULL OR (i.opened_at, i.incident_id) < (%(before)s, %(before_id)s))
 ORDER BY i.opened_at DESC, i.incident_id DESC LIMIT %(limit)s

-- name: list_steps
-- PostgresIncidents.timeline: what was said about an incident, oldest first.
SELECT l.event_id::text, l.event_time, l.applied_at, l.actor, l.body ->> 'step',
       coalesce(l.body -> 'first', '{}') || coalesce(l.body -> 'said', '{}'), l.body ->> 'comment'
  FROM lineage_events AS l
 WHERE l.from_id = %(incident_id)s AND l.tenant_id = %(tenant_id)s AND l.kind = 'incident'
 ORDER BY l.event_time DESC, l.event_id DESC LIMIT %(limit)s

-- name: open_on
-- PostgresIncidents.open_on: those that are not resolved, on any of these assets; the gravest first.
SELECT i.incident_id, i.asset_id, i.status, i.opened_at,
       incident_document(i.incident_id, i.asset_id, i.said, i.opened_at, i.updated_at)::text
  FROM incidents AS i
 WHERE i.tenant_id = %(tenant_id)s AND i.asset_id = ANY(%(asset_ids)s::text[]) AND i.status <> 'resolved'
 ORDER BY i.severity NULLS LAST, i.opened_at DESC, i.incident_id LIMIT %(limit)s

-- name: open_upstream
-- PostgresIncidents.open_upstream: the open incidents of everything an asset comes from, at any distance, over
-- edges between assets that are there. The walk goes up from the asset, a level at a time.
WITH RECURSIVE upstream (asset_id) AS (
    SELECT %(asset_id)s::text
     UNION
    SELECT e.from_id FROM upstream AS u
     CROSS JOIN LATERAL (
           SELECT * FROM edges AS e WHERE e.to_id = u.asset_id AND e.tenant_id = %(tenant_id)s OFFSET 0) AS e
     WHERE NOT is_out_of_the_way(%(tenant_id)s, e.from_id)
)
SELECT i.incident_id, i.asset_id, i.status, i.opened_at,
       incident_document(i.incident_id, i.asset_id, i.said, i.opened_at, i.updated_at)::text
  FROM upstream AS u
  JOIN incidents AS i ON i.asset_id = u.asset_id AND i.tenant_id = %(tenant_id)s AND i.status <> 'resolved'
 WHERE u.asset_id <> %(asset_id)s
 ORDER BY i.severity NULLS LAST, i.opened_at DESC, i.incident_id LIMIT %(limit)s
