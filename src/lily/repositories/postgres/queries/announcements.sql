-- Changes of who may do what, told to every process that remembers such things.

-- name: call_round
-- Announcements.wait_until_heard: a number larger than that of every round called before.
SELECT round, pg_notify('lily_access', json_build_array('round', '', round::text)::text) FROM nextval('access_rounds') AS round

-- name: count_deaf
-- Announcements.wait_until_heard: how many rely on being told and have not heard this round.
-- FOR SHARE waits for renewals under way, which may not know of the round.
SELECT count(*) FROM (SELECT lease_until FROM access_listeners WHERE heard < %(round)s FOR SHARE) AS behind
 WHERE lease_until >= clock_timestamp()

-- name: register_listener
-- Announcements, after a listener began to listen and before it remembers anything: what was changed before
-- the rounds called so far it will read for itself.
INSERT INTO access_listeners (listener, heard, lease_until)
SELECT %(listener)s, CASE WHEN is_called THEN last_value ELSE 0 END,
       clock_timestamp() + make_interval(secs => %(seconds)s)
  FROM access_rounds
ON CONFLICT (listener) DO UPDATE SET heard = EXCLUDED.heard, lease_until = EXCLUDED.lease_until
RETURNING heard, heard

-- name: renew_lease
-- Announcements, several times a second and after every round. The newest round is read with the row locked.
UPDATE access_listeners
   SET heard = greatest(heard, %(heard)s), lease_until = clock_timestamp() + make_interval(secs => %(seconds)s)
 WHERE listener = %(listener)s
RETURNING heard, (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM access_rounds)

-- name: remove_listener
-- Announcements, when the process ends.
DELETE FROM access_listeners WHERE listener = %(listener)s

-- name: forget_listeners
-- Announcements, when a listener registers: those that died long ago.
DELETE FROM access_listeners WHERE lease_until < clock_timestamp() - interval '1 minute'
