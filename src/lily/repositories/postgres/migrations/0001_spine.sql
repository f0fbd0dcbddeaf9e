-- The spine: the state of every asset, what each event did to it, what was refused, and how far each
-- query has come. Every key leads with tenant_id, so that the tables shard by tenant.

-- One row per asset. `clock_time`/`clock_id` are the time and id of the newest event applied, `fields` the
-- fields that event spoke about (lily.domain.assets.Field); a field last spoken about by another event has
-- its own clock in `clocks`: {"<field>": [microseconds, "<event id>"]}. NULL for most assets, which keeps
-- a column asset small.
CREATE TABLE assets (
    tenant_id      text        NOT NULL,
    asset_id       text        NOT NULL,
    asset_name     text,
    asset_type     text,
    asset_owner    text,
    description    text,
    data_source    text,
    external_id    text,
    business_terms text[],
    source_tags    text[],
    user_tags      text[],
    metadata       jsonb,
    is_deleted     boolean,
    created_at     timestamptz NOT NULL,
    version        integer     NOT NULL,
    fields         smallint    NOT NULL,
    clock_time     timestamptz NOT NULL,
    clock_id       uuid        NOT NULL,
    clocks         jsonb,
    PRIMARY KEY (tenant_id, asset_id)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- One row per event ever applied: the ledger that makes an event count once, the history of its asset, and
-- the outbox from which `metadata-changes` is published in the order of `seq` within a lane.
-- `fields` are those a reader sees differently now; the columns from asset_name on are the asset after the
-- event, left out when nothing changed for a reader.
CREATE TABLE changes (
    seq            bigint      GENERATED ALWAYS AS IDENTITY,
    lane           text        NOT NULL,
    tenant_id      text        NOT NULL,
    asset_id       text        NOT NULL,
    event_id       uuid        NOT NULL,
    event_time     timestamptz NOT NULL,
    applied_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    outcome        text        NOT NULL,
    version        integer     NOT NULL,
    fields         smallint    NOT NULL,
    actor          text        NOT NULL,
    traceparent    text,
    asset_name     text,
    asset_type     text,
    asset_owner    text,
    description    text,
    data_source    text,
    external_id    text,
    business_terms text[],
    source_tags    text[],
    user_tags      text[],
    metadata       jsonb,
    is_deleted     boolean,
    created_at     timestamptz,
    updated_at     timestamptz,
    PRIMARY KEY (tenant_id, event_id)
);
CREATE INDEX changes_by_seq ON changes (lane, seq);
-- Not led by tenant_id: with two candidates so led, the planner takes the wrong one while the table is small.
CREATE INDEX changes_by_asset ON changes (asset_id, tenant_id, version);

-- One row per record that could not be applied, found by its place in the log.
CREATE TABLE dead_letters (
    seq         bigint      GENERATED ALWAYS AS IDENTITY,
    lane        text        NOT NULL,
    topic       text        NOT NULL,
    "partition" integer     NOT NULL,
    "offset"    bigint      NOT NULL,
    tenant_id   text        NOT NULL,
    event_id    text        NOT NULL,
    reason      text        NOT NULL,
    detail      text        NOT NULL,
    key         bytea,
    payload     bytea       NOT NULL,
    headers     json        NOT NULL,
    refused_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    replayed_at timestamptz,
    PRIMARY KEY (topic, "partition", "offset")
);
CREATE INDEX dead_letters_by_seq ON dead_letters (lane, seq);
CREATE INDEX dead_letters_by_event ON dead_letters (tenant_id, event_id);

-- One row per streaming query: the last batch applied and where it ended. Written in the batch's own
-- transaction, so a batch that Spark repeats after a crash is recognised and skipped.
CREATE TABLE stream_positions (
    query      text        PRIMARY KEY,
    batch_id   bigint      NOT NULL,
    offsets    jsonb       NOT NULL,
    events     bigint      NOT NULL,
    dead       bigint      NOT NULL,
    event_time timestamptz,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- How far each relay has published.
CREATE TABLE relay_positions (
    relay text   PRIMARY KEY,
    seq   bigint NOT NULL
);

-- Which process says it is well, and when it last said so.
CREATE TABLE heartbeats (
    component text        PRIMARY KEY,
    status    text        NOT NULL,
    details   jsonb       NOT NULL,
    beat_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The first request of every idempotency key, so that another payload under the same key is refused.
CREATE TABLE idempotency_keys (
    tenant_id    text        NOT NULL,
    actor        text        NOT NULL,
    key          text        NOT NULL,
    request_hash bytea       NOT NULL,
    event_id     uuid        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, actor, key)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- Where the leaf lane's executors copy a batch to, in parallel; emptied with every batch. Unlogged: after a
-- crash Spark repeats the batch. The structural lane stages in a temporary table of the same shape.
CREATE UNLOGGED TABLE leaf_staging (
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
    is_deleted       boolean
) WITH (autovacuum_enabled = off);
