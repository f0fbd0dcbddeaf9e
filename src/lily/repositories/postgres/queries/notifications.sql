-- Notifications for people.

-- name: open_notifications
-- record_matches: the rows to count on, made if need be and locked, in one order for everybody.
INSERT INTO notifications (tenant_id, notification_id, recipient, group_key, state, count, message, first_at, last_at)
SELECT * FROM unnest(%(tenant_ids)s::text[], %(notification_ids)s::uuid[], %(recipients)s::text[],
                     %(group_keys)s::text[]) AS n (tenant_id, notification_id, recipient, group_key),
       (VALUES ('new', 0, '{}'::jsonb, clock_timestamp(), clock_timestamp())) AS empty
 ORDER BY 1, 2
ON CONFLICT (tenant_id, notification_id) DO NOTHING

-- name: lock_notifications
-- record_matches
SELECT tenant_id, notification_id::text, state
  FROM notifications
 WHERE (tenant_id, notification_id) IN (
       SELECT * FROM unnest(%(tenant_ids)s::text[], %(notification_ids)s::uuid[]))
 ORDER BY tenant_id, notification_id FOR UPDATE

-- name: insert_causes
-- record_matches: which of these were not told yet.
INSERT INTO notification_causes (tenant_id, subscription_id, cause_key, notification_id, change, event_id, asset_id,
                                 path, reason, applied_at)
SELECT tenant_id, subscription_id, cause_key, notification_id, change, event_id, asset_id,
       ARRAY(SELECT jsonb_array_elements_text(path)), reason, applied_at
  FROM unnest(%(tenant_ids)s::text[], %(subscription_ids)s::uuid[], %(cause_keys)s::text[],
              %(notification_ids)s::uuid[], %(changes)s::text[], %(event_ids)s::text[], %(asset_ids)s::text[],
              %(paths)s::jsonb[], %(reasons)s::text[], %(applied_at)s::timestamptz[])
       AS c (tenant_id, subscription_id, cause_key, notification_id, change, event_id, asset_id, path, reason,
             applied_at)
ON CONFLICT (tenant_id, subscription_id, cause_key) DO NOTHING
RETURNING tenant_id, subscription_id::text, cause_key

-- name: known_causes
-- record_matches: what these notifications stand for already, whichever subscription told it.
SELECT tenant_id, notification_id::text, cause_key FROM notification_causes
 WHERE (tenant_id, notification_id, cause_key) IN (
       SELECT * FROM unnest(%(tenant_ids)s::text[], %(notification_ids)s::uuid[], %(cause_keys)s::text[]))

-- name: update_notifications
-- record_matches: the newest message, the state it leads to, and how many changes that makes now.
UPDATE notifications AS n
   SET state = u.state, message = u.message || jsonb_build_object('count', c.count), asset_id = u.asset_id,
       incident_id = u.incident_id, count = c.count, first_at = c.first_at, last_at = c.last_at,
       updated_at = clock_timestamp()
  FROM unnest(%(tenant_ids)s::text[], %(notification_ids)s::uuid[], %(states)s::text[], %(messages)s::jsonb[],
              %(asset_ids)s::text[], %(incident_ids)s::text[])
       AS u (tenant_id, notification_id, state, message, asset_id, incident_id)
 CROSS JOIN LATERAL (
       SELECT count(DISTINCT k.cause_key)::int AS count, min(k.applied_at) AS first_at, max(k.applied_at) AS last_at
         FROM notification_causes AS k
        WHERE k.tenant_id = u.tenant_id AND k.notification_id = u.notification_id) AS c
 WHERE n.tenant_id = u.tenant_id AND n.notification_id = u.notification_id
RETURNING n.tenant_id, n.notification_id::text, n.count

-- name: list_target_owners
-- notify_owners: everybody who has something told there.
SELECT DISTINCT ON (lower(owner)) owner FROM subscriptions
 WHERE tenant_id = %(tenant_id)s AND connector_id = %(connector_id)s AND NOT is_disabled
 ORDER BY lower(owner)

-- name: notify
-- notify_owners: one for each of them, new again if they had one.
INSERT INTO notifications AS n (tenant_id, notification_id, recipient, group_key, state, count, message, first_at,
                                last_at)
SELECT %(tenant_id)s, o.notification_id, o.recipient, %(group_key)s, 'new', 1, %(message)s, clock_timestamp(),
       clock_timestamp()
  FROM unnest(%(notification_ids)s::uuid[], %(recipients)s::text[]) AS o (notification_id, recipient)
 ORDER BY o.notification_id
ON CONFLICT (tenant_id, notification_id) DO UPDATE
   SET state = 'new', count = n.count + 1, message = excluded.message, last_at = excluded.last_at,
       snoozed_until = NULL, updated_at = clock_timestamp()

-- name: list_notifications
-- PostgresNotifications.list and .find: a person's own and those assigned to them, newest first.
SELECT notification_id::text, recipient, group_key, state, count, message, asset_id, incident_id, snoozed_until,
       assignee, note, first_at, last_at, updated_at
  FROM notifications
 WHERE tenant_id = %(tenant_id)s AND count > 0
   AND (lower(recipient) = lower(%(person)s) OR lower(assignee) = lower(%(person)s))
   AND (%(id)s::uuid IS NULL OR notification_id = %(id)s::uuid)
   AND (%(states)s::text[] IS NULL OR state = ANY(%(states)s::text[]))
   AND (%(severity)s::text IS NULL OR message ->> 'severity' = %(severity)s::text)
   AND (%(incident_id)s::text IS NULL OR incident_id = %(incident_id)s::text)
   AND (%(snoozed)s::boolean OR coalesce(snoozed_until < clock_timestamp(), true))
   AND (%(before)s::timestamptz IS NULL
        OR (last_at, notification_id) < (%(before)s::timestamptz, %(before_id)s::uuid))
 ORDER BY last_at DESC, notification_id DESC LIMIT %(limit)s

-- name: lock_notification
-- PostgresNotifications.change: for who has the notification or was assigned to it.
SELECT state FROM notifications
 WHERE tenant_id = %(tenant_id)s AND notification_id = %(id)s::uuid AND count > 0
   AND (lower(recipient) = lower(%(person)s) OR lower(assignee) = lower(%(person)s))
   FOR UPDATE

-- name: change_notification
-- PostgresNotifications.change: what is given.
UPDATE notifications
   SET state = %(state)s, note = coalesce(%(note)s::text, note),
       snoozed_until = CASE WHEN %(snoozes)s THEN %(snoozed_until)s::timestamptz ELSE snoozed_until END,
       assignee = CASE WHEN %(assigns)s THEN %(assignee)s::text ELSE assignee END,
       updated_at = clock_timestamp()
 WHERE tenant_id = %(tenant_id)s AND notification_id = %(id)s::uuid
RETURNING notification_id::text, recipient, group_key, state, count, message, asset_id, incident_id, snoozed_until,
          assignee, note, first_at, last_at, updated_at

-- name: list_causes
-- PostgresNotifications.causes: what a notification stands for, newest first.
SELECT k.cause_key, k.subscription_id::text, s.name, k.change, k.event_id, k.asset_id, k.path, k.reason, k.applied_at
  FROM notification_causes AS k
  LEFT JOIN subscriptions AS s ON s.tenant_id = %(tenant_id)s AND s.subscription_id = k.subscription_id
 WHERE k.tenant_id = %(tenant_id)s AND k.notification_id = %(id)s::uuid
 ORDER BY k.applied_at DESC, k.cause_key, k.subscription_id LIMIT %(limit)s
