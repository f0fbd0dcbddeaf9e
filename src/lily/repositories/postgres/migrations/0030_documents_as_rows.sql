-- What is shown of an asset and told of a change, as rows: JSON is written of a row in half the time that it takes to
-- name every key and value.
CREATE TYPE shown_assertions AS (source text[], "user" text[]);
CREATE TYPE shown_asset AS (
    asset_id       text,
    asset_name     text,
    asset_type     text,
    asset_owner    text,
    description    text,
    data_source    text,
    external_id    text,
    tenant_id      text,
    tags           text[],
    tag_assertions shown_assertions,
    business_terms text[],
    metadata       jsonb,
    is_deleted     boolean,
    created_at     timestamptz,
    updated_at     timestamptz,
    version        integer
);
CREATE TYPE told_change AS (
    tenant_id  text,
    asset_id   text,
    version    integer,
    event_id   uuid,
    event_time timestamptz,
    applied_at timestamptz,
    outcome    text,
    actor      text,
    changed    text[],
    lane       text,
    seq        bigint,
    asset      json
);
