-- How a batch of events becomes state. This SQL is the rule; tests/kit/model.py is its oracle.
--
-- A batch is staged, what was refused is buried, and the rest is applied in rounds (rounds.py): the n-th
-- holds the n-th event of every asset, in log order, so each event makes its own version and each round is
-- one set-based statement. Most batches have one to three rounds.

-- name: create_temporary_staging
-- Called by the applier once per connection: where events are copied to (pipeline/staging.py).
CREATE TEMPORARY TABLE IF NOT EXISTS staged_events (
    topic            text,
    "partition"      integer,
    "offset"         bigint,
    key              bytea,
    payload          bytea,
    headers          text,
    reason           text,
    detail           text,
    event_id         text,
    tenant_id        text,
    asset_id         text,
    event_time       timestamptz,
    received_at      timestamptz,
    created_at       timestamptz,
    actor            text,
    traceparent      text,
    expected_version integer,
    fields           smallint,
    asset_name       text,
    asset_type       text,
    asset_owner      text,
    description      text,
    data_source      text,
    external_id      text,
    business_terms   text[],
    source_tags      text[],
    user_tags        text[],
    metadata         text,
    is_deleted       boolean,
    round            integer NOT NULL
) ON COMMIT DELETE ROWS

-- name: bury_dead_letters
-- Called by the applier for every batch that has any; a record is buried once, however often it is read.
INSERT INTO dead_letters (
    lane, topic, "partition", "offset", tenant_id, event_id, reason, detail, key, payload, headers)
SELECT
    '{lane}', topic, "partition", "offset", coalesce(tenant_id, ''), coalesce(event_id, ''), reason, detail,
    key, coalesce(payload, ''), coalesce(headers, '[]')::json
FROM {staging} WHERE reason IS NOT NULL
ON CONFLICT DO NOTHING

-- name: count_rounds
-- Called by the applier for every batch: how many rounds, and how many events purge their asset. A purge is
-- an assertion of NULL about every field.
SELECT coalesce(max(round), 0), count(*) FILTER (WHERE fields = 2047 AND asset_name IS NULL AND round > 0)
FROM staged_events

-- name: apply_round
-- Called by the applier for every round; returns how many events were to be applied and how many were. They
-- differ when another lane changed the same asset at the same moment: the applier then starts the batch over.
-- Every OFFSET 0 is there to have its subquery run once per row: without it the planner, which cannot know the
-- size of a table that grows by thousands of rows per statement, has been seen to scan all of `changes` for
-- every event.
WITH incoming AS MATERIALIZED (
    SELECT event_id::uuid AS event_id, tenant_id, asset_id, event_time, actor, traceparent, expected_version,
        least(created_at, event_time) AS created_at, fields, asset_name, asset_type, asset_owner, description,
        data_source, external_id, business_terms, source_tags, user_tags, metadata::jsonb AS metadata,
        is_deleted
    FROM staged_events AS i
    WHERE round = {round} AND NOT EXISTS (
        SELECT FROM changes AS c WHERE c.tenant_id = i.tenant_id AND c.event_id = i.event_id::uuid OFFSET 0)
), merged AS MATERIALIZED (
    -- The asset after its event. `differs` are the fields the event would change, `taken` those it is the
    -- newest to speak about.
    SELECT i.event_id, i.tenant_id, i.asset_id, i.event_time, i.actor, i.traceparent,
        s.row_id, s.clock_id AS read_clock_id, j.refused, s.row_id IS NULL OR j.differs <> 0 AS makes_version,
        t.taken & j.differs AS changed,
        s.asset_name IS NOT NULL AND s.asset_type IS NOT NULL AS was_visible,
        coalesce(s.is_deleted, false) AS was_deleted,
        coalesce(s.version, 0)
            + CASE WHEN NOT j.refused AND (s.row_id IS NULL OR j.differs <> 0) THEN 1 ELSE 0 END AS version,
        CASE WHEN t.taken & 1 <> 0 THEN i.asset_name ELSE s.asset_name END AS asset_name,
        CASE WHEN t.taken & 2 <> 0 THEN i.asset_type ELSE s.asset_type END AS asset_type,
        CASE WHEN t.taken & 4 <> 0 THEN i.asset_owner ELSE s.asset_owner END AS asset_owner,
        CASE WHEN t.taken & 8 <> 0 THEN i.description ELSE s.description END AS description,
        CASE WHEN t.taken & 16 <> 0 THEN i.data_source ELSE s.data_source END AS data_source,
        CASE WHEN t.taken & 32 <> 0 THEN i.external_id ELSE s.external_id END AS external_id,
        CASE WHEN t.taken & 64 <> 0 THEN i.business_terms ELSE s.business_terms END AS business_terms,
        CASE WHEN t.taken & 128 <> 0 THEN i.source_tags ELSE s.source_tags END AS source_tags,
        CASE WHEN t.taken & 256 <> 0 THEN i.user_tags ELSE s.user_tags END AS user_tags,
        CASE WHEN t.taken & 512 <> 0 THEN i.metadata ELSE s.metadata END AS metadata,
        CASE WHEN t.taken & 1024 <> 0 THEN i.is_deleted ELSE s.is_deleted END AS is_deleted,
        least(s.created_at, i.created_at) AS created_at,
        CASE WHEN j.is_newest THEN i.fields ELSE s.fields END AS fields,
        CASE WHEN j.is_newest THEN i.event_time ELSE s.clock_time END AS clock_time,
        CASE WHEN j.is_newest THEN i.event_id ELSE s.clock_id END AS clock_id,
        CASE WHEN s.row_id IS NULL OR j.is_newest AND s.clocks IS NULL AND s.fields & ~i.fields = 0 THEN NULL
             ELSE clocks_after(s.clocks, s.fields, s.clock_time, s.clock_id,
                               t.taken, j.is_newest, i.event_time, i.event_id) END AS clocks
    FROM incoming AS i
    LEFT JOIN LATERAL (
        SELECT ctid AS row_id, * FROM assets AS a
        WHERE a.tenant_id = i.tenant_id AND a.asset_id = i.asset_id OFFSET 0
    ) AS s ON true
    CROSS JOIN LATERAL (
        SELECT
            i.expected_version IS NOT NULL AND i.expected_version <> coalesce(s.version, 0) AS refused,
            s.row_id IS NULL OR (i.event_time, i.event_id) > (s.clock_time, s.clock_id) AS is_newest,
            (
            CASE WHEN i.fields & 1 <> 0 AND i.asset_name IS DISTINCT FROM s.asset_name THEN 1 ELSE 0 END
          | CASE WHEN i.fields & 2 <> 0 AND i.asset_type IS DISTINCT FROM s.asset_type THEN 2 ELSE 0 END
          | CASE WHEN i.fields & 4 <> 0 AND i.asset_owner IS DISTINCT FROM s.asset_owner THEN 4 ELSE 0 END
          | CASE WHEN i.fields & 8 <> 0 AND i.description IS DISTINCT FROM s.description THEN 8 ELSE 0 END
          | CASE WHEN i.fields & 16 <> 0 AND i.data_source IS DISTINCT FROM s.data_source THEN 16 ELSE 0 END
          | CASE WHEN i.fields & 32 <> 0 AND i.external_id IS DISTINCT FROM s.external_id THEN 32 ELSE 0 END
          | CASE WHEN i.fields & 64 <> 0 AND i.business_terms IS DISTINCT FROM s.business_terms THEN 64 ELSE 0 END
          | CASE WHEN i.fields & 128 <> 0 AND i.source_tags IS DISTINCT FROM s.source_tags THEN 128 ELSE 0 END
          | CASE WHEN i.fields & 256 <> 0 AND i.user_tags IS DISTINCT FROM s.user_tags THEN 256 ELSE 0 END
          | CASE WHEN i.fields & 512 <> 0 AND i.metadata IS DISTINCT FROM s.metadata THEN 512 ELSE 0 END
          | CASE WHEN i.fields & 1024 <> 0 AND i.is_deleted IS DISTINCT FROM s.is_deleted THEN 1024 ELSE 0 END
            )::smallint AS differs
        OFFSET 0
    ) AS j
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN j.refused THEN 0::smallint
            WHEN j.is_newest THEN i.fields
            ELSE fields_still_open(i.fields, s.fields, s.clocks, i.event_time, i.event_id)
        END AS taken
        OFFSET 0
    ) AS t
), updated AS (
    UPDATE assets AS a SET
        asset_name = m.asset_name, asset_type = m.asset_type, asset_owner = m.asset_owner,
        description = m.description, data_source = m.data_source, external_id = m.external_id,
        business_terms = m.business_terms, source_tags = m.source_tags, user_tags = m.user_tags,
        metadata = m.metadata, is_deleted = m.is_deleted, created_at = m.created_at, version = m.version,
        fields = m.fields, clock_time = m.clock_time, clock_id = m.clock_id, clocks = m.clocks
    FROM merged AS m
    WHERE a.ctid = m.row_id AND a.clock_id = m.read_clock_id AND NOT m.refused
    RETURNING 1
), inserted AS (
    INSERT INTO assets
    SELECT tenant_id, asset_id, asset_name, asset_type, asset_owner, description, data_source, external_id,
        business_terms, source_tags, user_tags, metadata, is_deleted, created_at, version, fields, clock_time,
        clock_id, clocks
    FROM merged WHERE row_id IS NULL AND NOT refused
    RETURNING 1
), recorded AS (
    INSERT INTO changes (
        lane, tenant_id, asset_id, event_id, event_time, outcome, version, fields, actor, traceparent,
        asset_name, asset_type, asset_owner, description, data_source, external_id, business_terms,
        source_tags, user_tags, metadata, is_deleted, created_at, updated_at
    )
    SELECT '{lane}', tenant_id, asset_id, event_id, event_time, outcome, version, changed, actor, traceparent,
        (CASE WHEN is_told THEN asset_name END), (CASE WHEN is_told THEN asset_type END),
        (CASE WHEN is_told THEN asset_owner END), (CASE WHEN is_told THEN description END),
        (CASE WHEN is_told THEN data_source END), (CASE WHEN is_told THEN external_id END),
        (CASE WHEN is_told THEN business_terms END), (CASE WHEN is_told THEN source_tags END),
        (CASE WHEN is_told THEN user_tags END), (CASE WHEN is_told THEN metadata END),
        (CASE WHEN is_told THEN is_deleted END), (CASE WHEN is_told THEN created_at END),
        (CASE WHEN is_told THEN clock_time END)
    FROM merged AS m
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN refused THEN 'refused'
            WHEN NOT makes_version THEN 'unchanged'
            WHEN changed = 0 AND row_id IS NOT NULL THEN 'superseded'
            WHEN asset_name IS NULL OR asset_type IS NULL
                THEN CASE WHEN was_visible THEN 'purged' ELSE 'pending' END
            WHEN NOT was_visible THEN 'created'
            WHEN is_deleted AND NOT was_deleted THEN 'deleted'
            WHEN was_deleted AND NOT coalesce(is_deleted, false) THEN 'restored'
            ELSE 'updated'
        END AS outcome
        OFFSET 0
    ) AS o
    CROSS JOIN LATERAL (
        SELECT outcome IN ('created', 'updated', 'deleted', 'restored') AS is_told OFFSET 0) AS v
    RETURNING outcome
)
SELECT
    (SELECT count(*) FROM incoming) AS due,
    (SELECT count(*) FROM updated) + (SELECT count(*) FROM inserted)
        + count(*) FILTER (WHERE outcome = 'refused') AS applied
FROM recorded

-- name: forget_purged
-- Called by the applier after a batch with purges: what an asset was before is not kept here, whenever the
-- purge arrived.
UPDATE changes AS c SET
    asset_name = NULL, asset_type = NULL, asset_owner = NULL, description = NULL, data_source = NULL,
    external_id = NULL, business_terms = NULL, source_tags = NULL, user_tags = NULL, metadata = NULL
FROM (
    SELECT tenant_id, event_id::uuid AS event_id FROM staged_events
    WHERE fields = 2047 AND asset_name IS NULL AND round > 0
) AS r
JOIN changes AS purge ON purge.tenant_id = r.tenant_id AND purge.event_id = r.event_id
WHERE c.tenant_id = purge.tenant_id AND c.asset_id = purge.asset_id AND c.seq < purge.seq
  AND c.asset_name IS NOT NULL AND purge.outcome <> 'refused'

-- name: record_position
-- Called by the applier in the batch's transaction, or after those of its parts: all changes and dead letters of the
-- lane up to here are committed then, so that who reads them in their order misses none (ADR 36).
WITH ended AS (
    INSERT INTO lane_ends VALUES (
        $7, coalesce((SELECT max(seq) FROM changes WHERE lane = $7), 0),
        coalesce((SELECT max(seq) FROM dead_letters WHERE lane = $7), 0))
    ON CONFLICT (lane) DO UPDATE SET seq = excluded.seq, dead_seq = excluded.dead_seq)
INSERT INTO stream_positions AS p (query, batch_id, offsets, events, dead, event_time)
VALUES ($1, $2, $3::jsonb, $4, $5, $6)
ON CONFLICT (query) DO UPDATE SET
    batch_id = excluded.batch_id, offsets = p.offsets || excluded.offsets, events = p.events + excluded.events,
    dead = p.dead + excluded.dead, event_time = coalesce(excluded.event_time, p.event_time),
    applied_at = clock_timestamp()

-- name: hold_position
-- Called by the applier before it notes a batch whose parts were applied before: nobody else notes one meanwhile.
SELECT batch_id FROM stream_positions WHERE query = $1 FOR UPDATE

-- name: position
-- Called by the applier before every batch, and by the check of the checkpoints at start.
SELECT batch_id, offsets::text FROM stream_positions WHERE query = $1
