-- What leaves the database for the log.

-- name: read_position
-- Called by the outbox reader at start.
SELECT seq FROM relay_positions WHERE relay = %(relay)s

-- name: write_position
-- Called by the outbox reader after the broker has acknowledged everything up to seq.
INSERT INTO relay_positions VALUES (%(relay)s, %(seq)s) ON CONFLICT (relay) DO UPDATE SET seq = excluded.seq

-- name: read_page
-- Called by the outbox reader around each of the queries below: its rows as one, a column of them at a time. Row by row
-- they cost the client four times as much, as it is woken for every 8 KB. `data` is JSON of PostgreSQL, which has no
-- line breaks; empty where there is nothing to tell.
SELECT coalesce(max(told.seq), %(after)s)::bigint, count(*), array_agg(told.tenant_id), array_agg(told.actor),
       array_agg(told.traceparent), array_agg(told.subject), array_agg(told.event_id),
       array_agg(to_char(told.at, 'YYYY-MM-DD"T"HH24:MI:SS.USTZH:TZM')), string_agg(told.data, E'\n')
  FROM ({rows}) AS told (seq, tenant_id, subject, event_id, traceparent, at, actor, data)

-- name: read_changes
-- Called by the outbox reader: the next changes of a lane, with the JSON told on metadata-changes.
SELECT c.seq, c.tenant_id, c.asset_id, c.event_id::text, coalesce(c.traceparent, ''), c.applied_at, c.actor,
    CASE WHEN c.outcome IN ('unchanged', 'pending', 'refused') THEN '' ELSE change_json(c) END
FROM changes AS c WHERE c.lane = %(lane)s AND c.seq > %(after)s AND c.seq <= lane_end(%(lane)s)
ORDER BY c.seq LIMIT %(most)s

-- name: read_tag_changes
-- Called by the outbox reader: the next changes of effective tags, with the JSON told on metadata-changes.
SELECT t.seq, t.tenant_id, t.asset_id, t.event_id::text, '', t.applied_at, '', tag_change_json(t)
FROM tag_changes AS t WHERE t.seq > %(after)s ORDER BY t.seq LIMIT %(most)s

-- name: read_incident_steps
-- Called by the outbox reader: the next changes of incidents by their steps, with the JSON told on metadata-changes.
SELECT i.seq, i.tenant_id, coalesce(i.asset_id, i.incident_id), i.event_id::text, '', i.applied_at, i.actor,
    json_build_object(
        'tenant_id', i.tenant_id, 'asset_id', i.asset_id, 'incident_id', i.incident_id, 'event_id', i.event_id,
        'event_time', i.event_time, 'applied_at', i.applied_at, 'outcome', i.outcome, 'actor', i.actor,
        'changed', i.changed, 'lane', %(lane)s::text, 'seq', i.seq, 'cause', i.cause, 'incident', i.incident)::text
FROM incident_changes AS i WHERE i.writer = 'lane' AND i.seq > %(after)s ORDER BY i.seq LIMIT %(most)s

-- name: read_incident_attachments
-- Called by the outbox reader: the next changes of incidents that were attached later, with the JSON told on metadata-changes.
SELECT i.seq, i.tenant_id, coalesce(i.asset_id, i.incident_id), i.event_id::text, '', i.applied_at, i.actor,
    json_build_object(
        'tenant_id', i.tenant_id, 'asset_id', i.asset_id, 'incident_id', i.incident_id, 'event_id', i.event_id,
        'event_time', i.event_time, 'applied_at', i.applied_at, 'outcome', i.outcome, 'actor', i.actor,
        'changed', i.changed, 'lane', %(lane)s::text, 'seq', i.seq, 'cause', i.cause, 'incident', i.incident)::text
FROM incident_changes AS i WHERE i.writer = 'propagation' AND i.seq > %(after)s ORDER BY i.seq LIMIT %(most)s

-- name: read_dead_letters
-- Called by the outbox reader: the next dead letters of a lane, with the JSON told on dead-letters.
SELECT d.seq, d.tenant_id, d.topic || '/' || d."partition" || '/' || d."offset", d.event_id, '', d.refused_at, '',
    json_build_object(
        'topic', d.topic, 'partition', d."partition", 'offset', d."offset", 'tenant_id', d.tenant_id,
        'event_id', d.event_id, 'reason', d.reason, 'detail', d.detail, 'refused_at', d.refused_at,
        'payload_base64', encode(substring(d.payload FOR 65536), 'base64'))::text
FROM dead_letters AS d WHERE d.lane = %(lane)s AND d.seq > %(after)s AND d.seq <= lane_dead_end(%(lane)s)
ORDER BY d.seq LIMIT %(most)s
