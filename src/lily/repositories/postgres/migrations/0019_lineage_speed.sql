-- What makes lineage quick on large graphs.

-- An edge as every interface shows it: made of a row where it is read, which takes a fraction of making it later.
CREATE TYPE edge_document AS (
    from_asset_id     text,
    to_asset_id       text,
    relationship_type text,
    transformation    json,
    blocked_tags      text[],
    sources           text[],
    asserted_at       timestamptz
);

-- What was said about one edge is found at once, even about one of a million that begin at the same asset.
DROP INDEX lineage_events_by_from;
CREATE INDEX lineage_events_by_from ON lineage_events (from_id, tenant_id, to_id, event_time) WHERE from_id IS NOT NULL;

-- Tenants with more to propagate than others should wait for: how far each is in every lane. Such a tenant is
-- followed by itself until it has caught up with `propagation_positions` (ADR 28).
CREATE TABLE propagation_arrears (
    tenant_id    text        NOT NULL,
    lane         text        NOT NULL,
    seq          bigint      NOT NULL,
    is_caught_up boolean     NOT NULL DEFAULT false,
    since        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, lane)
);

-- Changes of their effective tags that are in force and yet to be told: they go to `tag_changes`, which has one
-- writer so that its order is that of its commits, a bounded number at a time.
CREATE TABLE untold_tag_changes (
    tenant_id  text        NOT NULL,
    number     bigint      GENERATED ALWAYS AS IDENTITY,
    asset_id   text        NOT NULL,
    event_id   uuid        NOT NULL,
    cause      uuid        NOT NULL,
    added      text[]      NOT NULL,
    removed    text[]      NOT NULL,
    reasons    jsonb       NOT NULL,
    applied_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, number)
);

SELECT secure_table(name, 'SELECT') FROM unnest(ARRAY['propagation_arrears', 'untold_tag_changes']::regclass[]) AS name;
