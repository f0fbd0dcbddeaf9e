-- What is to be delivered. `now` is NULL but in tests that have a clock of their own.

-- name: enqueue
-- Called by the matching loop, and by who wants one message told: what is there already is left as it is.
WITH wanted AS (
    SELECT * FROM unnest(
        %(tenant_ids)s::text[], %(delivery_ids)s::uuid[], %(subscription_ids)s::text[], %(causes)s::text[],
        %(connector_ids)s::uuid[], %(options)s::jsonb[], %(queues)s::text[], %(asset_ids)s::text[],
        %(group_keys)s::text[], %(messages)s::jsonb[], %(told_at)s::timestamptz[]
    ) WITH ORDINALITY AS w (tenant_id, delivery_id, subscription_id, cause, connector_id, options, queue, asset_id,
        group_key, message, told_at, place)
), added AS (
    INSERT INTO deliveries (tenant_id, delivery_id, subscription_id, cause, connector_id, options, queue, asset_id,
        group_key, message, told_at)
    SELECT tenant_id, delivery_id, subscription_id, cause, connector_id, options, queue, asset_id, group_key,
        message, told_at
    FROM wanted ORDER BY place
    ON CONFLICT DO NOTHING RETURNING tenant_id, connector_id, queue
), targets AS (
    INSERT INTO delivery_targets (tenant_id, connector_id)
    SELECT DISTINCT tenant_id, connector_id FROM added ORDER BY 1, 2
    ON CONFLICT DO NOTHING
), queued AS (
    INSERT INTO delivery_queues AS q (tenant_id, connector_id, queue, pending, next_at)
    SELECT tenant_id, connector_id, queue, count(*), coalesce(%(now)s, clock_timestamp())
    FROM added GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (tenant_id, connector_id, queue) DO UPDATE SET pending = q.pending + excluded.pending,
        next_at = CASE WHEN q.pending > 0 THEN q.next_at ELSE excluded.next_at END
    RETURNING pg_notify('lily_deliveries', '')
)
SELECT (SELECT count(*) FROM added), (SELECT count(*) FROM queued)

-- name: surely
-- Called before what must outlive a crash of the database: the position in the log moves on after it.
SET LOCAL synchronous_commit = on

-- name: listen
-- Called by a dispatcher: something is to be delivered.
LISTEN lily_deliveries

-- name: listen_for_connectors
-- Called by a dispatcher: among other things, that a connector has changed.
LISTEN lily_access

-- name: hold_number
-- Called by a dispatcher on the connection it listens on: false when the number is another's.
SELECT pg_try_advisory_lock(%(lock_class)s, %(holder)s)

-- name: claim
-- Called by the delivery loop: takes queues that are due and nobody holds, of each target as many as there is
-- room for, the longest due first.
WITH living AS MATERIALIZED (
    SELECT objid::bigint AS holder FROM pg_locks
    WHERE locktype = 'advisory' AND classid::bigint = %(lock_class)s AND objsubid = 2 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
), busy AS MATERIALIZED (
    SELECT * FROM unnest(%(tenant_ids)s::text[], %(connector_ids)s::uuid[], %(rooms)s::integer[])
        AS b (tenant_id, connector_id, room)
), picked AS (
    SELECT free.tenant_id, free.connector_id, free.queue
    FROM delivery_targets AS t LEFT JOIN busy AS b USING (tenant_id, connector_id)
    CROSS JOIN LATERAL (
        SELECT q.tenant_id, q.connector_id, q.queue, q.next_at FROM delivery_queues AS q
        WHERE q.tenant_id = t.tenant_id AND q.connector_id = t.connector_id AND q.pending > 0
            AND q.next_at <= coalesce(%(now)s, clock_timestamp())
            AND (q.holder IS NULL OR q.lease_until <= coalesce(%(now)s, clock_timestamp())
                OR q.holder NOT IN (SELECT holder FROM living))
        ORDER BY q.next_at LIMIT coalesce(b.room, %(room)s) FOR UPDATE SKIP LOCKED
    ) AS free
    WHERE t.held_until <= coalesce(%(now)s, clock_timestamp())
    ORDER BY free.next_at LIMIT %(most)s
)
UPDATE delivery_queues AS q SET holder = %(holder)s,
    lease_until = coalesce(%(now)s, clock_timestamp()) + make_interval(secs => %(lease)s)
FROM picked AS p
WHERE q.tenant_id = p.tenant_id AND q.connector_id = p.connector_id AND q.queue = p.queue
RETURNING q.tenant_id, q.connector_id::text, q.queue

-- name: renew
-- Called by the delivery loop before the next message of a queue it holds: no row when it does not any more, or
-- when nothing is left to send now.
UPDATE delivery_queues AS q SET lease_until = coalesce(%(now)s, clock_timestamp()) + make_interval(secs => %(lease)s)
FROM delivery_targets AS t
WHERE q.tenant_id = %(tenant_id)s AND q.connector_id = %(connector_id)s AND q.queue = %(queue)s
    AND q.holder = %(holder)s AND q.pending > 0 AND q.next_at <= coalesce(%(now)s, clock_timestamp())
    AND q.lease_until > coalesce(%(now)s, clock_timestamp())
    AND t.tenant_id = q.tenant_id AND t.connector_id = q.connector_id
    AND t.held_until <= coalesce(%(now)s, clock_timestamp())
RETURNING q.queue

-- name: begin
-- Called by the delivery loop: the first message of each queue it holds, noted as begun. Of a target that keeps
-- groups together, the group's place is taken by the first that asks.
WITH held AS (
    SELECT * FROM unnest(
        %(tenant_ids)s::text[], %(connector_ids)s::uuid[], %(queues)s::text[], %(threads)s::boolean[]
    ) AS h (tenant_id, connector_id, queue, threads)
), heads AS (
    SELECT d.*, h.threads FROM held AS h CROSS JOIN LATERAL (
        SELECT * FROM deliveries AS d
        WHERE d.tenant_id = h.tenant_id AND d.connector_id = h.connector_id AND d.queue = h.queue
            AND d.status = 'pending'
        ORDER BY d.seq LIMIT 1
    ) AS d
), opened AS (
    INSERT INTO delivery_threads AS t (tenant_id, connector_id, subscription_id, group_key, opener)
    SELECT DISTINCT ON (tenant_id, connector_id, subscription_id, group_key)
        tenant_id, connector_id, subscription_id, group_key, delivery_id
    FROM heads WHERE threads ORDER BY 1, 2, 3, 4, seq
    ON CONFLICT (tenant_id, connector_id, subscription_id, group_key)
        DO UPDATE SET updated_at = coalesce(%(now)s, clock_timestamp())
    RETURNING t.*
), begun AS (
    UPDATE deliveries AS d SET attempts = d.attempts + 1, is_uncertain = true,
        first_attempt = coalesce(d.first_attempt, %(now)s, clock_timestamp())
    FROM heads AS h
    WHERE d.tenant_id = h.tenant_id AND d.delivery_id = h.delivery_id
    RETURNING d.*, h.is_uncertain AS was_uncertain
)
SELECT d.tenant_id, d.connector_id::text, d.queue, d.delivery_id, d.subscription_id, d.options, d.message,
    d.told_at, d.attempts, d.failures, d.was_uncertain, d.first_attempt, o.place,
    coalesce(o.place IS NULL AND o.opener <> d.delivery_id, false) AS waits
FROM begun AS d LEFT JOIN opened AS o USING (tenant_id, connector_id, subscription_id, group_key)

-- name: finish
-- Called by the delivery loop: the message is delivered, or dead. Counted once, whoever finishes it. A queue with
-- nothing left is held by nobody, and stays until it is forgotten.
WITH done AS (
    UPDATE deliveries AS d SET status = %(status)s, finished_at = coalesce(%(now)s, clock_timestamp()),
        is_uncertain = false, error = %(error)s, rendered = %(rendered)s, log = d.log || %(entry)s::jsonb,
        failures = d.failures + (%(status)s = 'dead')::integer
    WHERE d.tenant_id = %(tenant_id)s AND d.delivery_id = %(delivery_id)s AND d.status = 'pending'
    RETURNING d.connector_id, d.subscription_id, d.group_key, d.delivery_id
), placed AS (
    UPDATE delivery_threads AS t SET place = %(place)s::jsonb, updated_at = coalesce(%(now)s, clock_timestamp())
    FROM done
    WHERE %(place)s::jsonb IS NOT NULL AND t.tenant_id = %(tenant_id)s AND t.connector_id = done.connector_id
        AND t.subscription_id = done.subscription_id AND t.group_key = done.group_key
), closed AS (
    DELETE FROM delivery_threads AS t USING done
    WHERE %(place)s::jsonb IS NULL AND t.tenant_id = %(tenant_id)s AND t.connector_id = done.connector_id
        AND t.subscription_id = done.subscription_id AND t.group_key = done.group_key
        AND t.place IS NULL AND t.opener = done.delivery_id
), counted AS (
    -- Written only when it changes: what arrives one after the other does not wait for this row.
    UPDATE delivery_targets AS t SET dead_in_row = CASE WHEN %(counts)s THEN t.dead_in_row + 1 ELSE 0 END
    FROM done
    WHERE t.tenant_id = %(tenant_id)s AND t.connector_id = done.connector_id
        AND (%(counts)s OR (%(status)s = 'delivered' AND t.dead_in_row > 0))
    RETURNING t.dead_in_row
), number AS (
    SELECT count(*) AS done FROM done
), dequeued AS (
    UPDATE delivery_queues AS q SET pending = q.pending - number.done,
        holder = CASE WHEN q.pending > number.done OR q.holder <> %(holder)s THEN q.holder END,
        lease_until = CASE WHEN q.pending > number.done OR q.holder <> %(holder)s THEN q.lease_until END
    FROM number
    WHERE q.tenant_id = %(tenant_id)s AND q.connector_id = %(connector_id)s AND q.queue = %(queue)s
    RETURNING q.pending
)
SELECT coalesce((SELECT dead_in_row FROM counted), 0), coalesce((SELECT pending FROM dequeued), 0)::integer

-- name: forgive
-- Called when a target was switched off: once it is switched on again, it is counted anew.
UPDATE delivery_targets SET dead_in_row = 0 WHERE tenant_id = %(tenant_id)s AND connector_id = %(connector_id)s

-- name: postpone
-- Called by the delivery loop: the attempt failed, and the queue waits for the next one.
WITH failed AS (
    UPDATE deliveries AS d SET failures = d.failures + 1, is_uncertain = %(is_uncertain)s, error = %(error)s,
        rendered = %(rendered)s, log = d.log || %(entry)s::jsonb
    WHERE d.tenant_id = %(tenant_id)s AND d.delivery_id = %(delivery_id)s AND d.status = 'pending'
)
UPDATE delivery_queues AS q SET holder = NULL, lease_until = NULL,
    next_at = coalesce(%(now)s, clock_timestamp()) + make_interval(secs => %(seconds)s)
WHERE q.tenant_id = %(tenant_id)s AND q.connector_id = %(connector_id)s AND q.queue = %(queue)s
    AND q.holder = %(holder)s

-- name: step_back
-- Called by the delivery loop: nothing was sent, another message makes the place this one goes to.
WITH undone AS (
    UPDATE deliveries AS d SET attempts = d.attempts - 1, is_uncertain = %(is_uncertain)s
    WHERE d.tenant_id = %(tenant_id)s AND d.delivery_id = %(delivery_id)s AND d.status = 'pending'
)
UPDATE delivery_queues AS q SET holder = NULL, lease_until = NULL,
    next_at = coalesce(%(now)s, clock_timestamp()) + make_interval(secs => %(seconds)s)
WHERE q.tenant_id = %(tenant_id)s AND q.connector_id = %(connector_id)s AND q.queue = %(queue)s
    AND q.holder = %(holder)s

-- name: hold_target
-- Called by the delivery loop: the target asked to be left alone.
UPDATE delivery_targets SET held_until =
    greatest(held_until, coalesce(%(now)s, clock_timestamp()) + make_interval(secs => %(seconds)s))
WHERE tenant_id = %(tenant_id)s AND connector_id = %(connector_id)s

-- name: release
-- Called by the delivery loop when it sends no more from a queue it holds.
UPDATE delivery_queues SET holder = NULL, lease_until = NULL
WHERE tenant_id = %(tenant_id)s AND connector_id = %(connector_id)s AND queue = %(queue)s AND holder = %(holder)s

-- name: next_due
-- Called by the delivery loop before it sleeps: the seconds until something is due, and whether something is due
-- that another holds or that its target does not want yet.
SELECT extract(epoch FROM (SELECT min(next_at) FROM delivery_queues
        WHERE pending > 0 AND next_at > coalesce(%(now)s, clock_timestamp()))
        - coalesce(%(now)s, clock_timestamp()))::float8,
    EXISTS (SELECT FROM delivery_queues WHERE pending > 0 AND next_at <= coalesce(%(now)s, clock_timestamp()))

-- name: forget
-- Called by the delivery loop every hour: what was finished long ago, and places nothing went to for long.
WITH old AS (
    DELETE FROM deliveries
    WHERE status <> 'pending' AND finished_at < clock_timestamp() - make_interval(days => %(days)s)
), empty AS (
    DELETE FROM delivery_queues WHERE pending = 0 AND (holder IS NULL OR lease_until < clock_timestamp())
)
DELETE FROM delivery_threads WHERE updated_at < clock_timestamp() - make_interval(days => %(days)s)

-- name: forget_causes
-- Called by the delivery loop every hour: what notifications stood for to which nothing happened for long, as many
-- as are forgotten at once.
WITH old AS (
    SELECT k.tenant_id, k.subscription_id, k.cause_key FROM notification_causes AS k
    WHERE k.applied_at < clock_timestamp() - make_interval(days => %(days)s)
        AND NOT EXISTS (SELECT FROM notifications AS n
            WHERE n.tenant_id = k.tenant_id AND n.notification_id = k.notification_id
                AND n.last_at >= clock_timestamp() - make_interval(days => %(days)s))
    ORDER BY k.applied_at LIMIT %(most)s
)
DELETE FROM notification_causes AS k USING old
WHERE k.tenant_id = old.tenant_id AND k.subscription_id = old.subscription_id AND k.cause_key = old.cause_key
RETURNING 1

-- name: list_deliveries
-- Called by GET /lily/v1/deliveries: the newest first.
SELECT d.seq, d.delivery_id::text, d.subscription_id, d.cause, d.connector_id::text, d.asset_id, d.status,
    d.attempts, d.failures, d.told_at, d.created_at, d.finished_at, d.error, d.rendered, d.message, d.log,
    CASE WHEN d.status = 'pending' THEN q.next_at END
FROM deliveries AS d LEFT JOIN delivery_queues AS q USING (tenant_id, connector_id, queue)
WHERE d.tenant_id = %(tenant_id)s
    AND (%(before)s::bigint IS NULL OR d.seq < %(before)s)
    AND (%(delivery_id)s::uuid IS NULL OR d.delivery_id = %(delivery_id)s)
    AND (%(status)s::text IS NULL OR d.status = %(status)s)
    AND (%(subscription_id)s::text IS NULL OR d.subscription_id = %(subscription_id)s)
    AND (%(connector_id)s::uuid IS NULL OR d.connector_id = %(connector_id)s)
    AND (%(asset_id)s::text IS NULL OR d.asset_id = %(asset_id)s)
ORDER BY d.seq DESC LIMIT %(most)s

-- name: replay
-- Called by POST /lily/v1/deliveries/{delivery_id}/replay and `lily deliveries replay`: sent again under its old
-- id, in its old place of the order.
WITH again AS (
    UPDATE deliveries SET status = 'pending', failures = 0, finished_at = NULL, first_attempt = NULL
    WHERE tenant_id = %(tenant_id)s AND delivery_id = ANY(%(delivery_ids)s::uuid[]) AND status <> 'pending'
    RETURNING tenant_id, connector_id, queue
), targets AS (
    INSERT INTO delivery_targets (tenant_id, connector_id) SELECT DISTINCT tenant_id, connector_id FROM again
    ON CONFLICT DO NOTHING
), queued AS (
    INSERT INTO delivery_queues AS q (tenant_id, connector_id, queue, pending, next_at)
    SELECT tenant_id, connector_id, queue, count(*), clock_timestamp() FROM again GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (tenant_id, connector_id, queue) DO UPDATE
        SET pending = q.pending + excluded.pending, next_at = excluded.next_at
    RETURNING pg_notify('lily_deliveries', '')
)
SELECT (SELECT count(*) FROM again), (SELECT count(*) FROM queued)
