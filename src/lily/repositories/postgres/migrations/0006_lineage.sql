-- Lineage and tags: what the events on `metadata-events` say, and what follows from it.
-- `from_id` is always upstream: a tag goes from `from_id` to `to_id`, a table contains (from) its columns (to).

-- One row per event applied: the ledger that makes an event count once, the history that answers `as_of`,
-- and, in the order of `seq`, what propagation still has to look at.
CREATE TABLE lineage_events (
    seq               bigint      GENERATED ALWAYS AS IDENTITY,
    tenant_id         text        NOT NULL,
    event_id          uuid        NOT NULL,
    kind              text        NOT NULL, -- edge, tag, opt_out or definition (lily.domain.lineage.Statement)
    event_time        timestamptz NOT NULL,
    applied_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor             text        NOT NULL,
    source            text        NOT NULL, -- who says so; '*' retracts what everybody said
    holds             boolean     NOT NULL, -- false retracts
    from_id           text,                 -- of an edge; the asset of a tag or an opt-out
    to_id             text,
    relationship_type text,
    tags              text[],               -- those asserted, or those an edge blocks
    body              jsonb,                -- what else was said
    PRIMARY KEY (tenant_id, event_id)
);
CREATE INDEX lineage_events_by_seq ON lineage_events (seq);
CREATE INDEX lineage_events_by_from ON lineage_events (from_id, tenant_id, event_time) WHERE from_id IS NOT NULL;
CREATE INDEX lineage_events_by_to ON lineage_events (to_id, tenant_id, event_time) WHERE to_id IS NOT NULL;

-- What each source last said about each edge.
CREATE TABLE edge_assertions (
    tenant_id         text        NOT NULL,
    from_id           text        NOT NULL,
    to_id             text        NOT NULL,
    relationship_type text        NOT NULL,
    source            text        NOT NULL,
    holds             boolean     NOT NULL,
    is_indirect       boolean     NOT NULL DEFAULT false,
    is_masking        boolean     NOT NULL DEFAULT false,
    subtype           text,
    blocked_tags      text[]      NOT NULL DEFAULT '{}',
    body              jsonb,
    actor             text        NOT NULL,
    clock_time        timestamptz NOT NULL,
    clock_id          uuid        NOT NULL,
    PRIMARY KEY (tenant_id, from_id, to_id, relationship_type, source)
);

-- The edges there are: those at least one source asserts. '*' in `blocked_tags` blocks every tag.
CREATE TABLE edges (
    tenant_id         text        NOT NULL,
    from_id           text        NOT NULL,
    to_id             text        NOT NULL,
    relationship_type text        NOT NULL,
    is_indirect       boolean     NOT NULL DEFAULT false,
    is_masking        boolean     NOT NULL DEFAULT false,
    subtype           text,
    blocked_tags      text[]      NOT NULL DEFAULT '{}',
    sources           text[]      NOT NULL DEFAULT '{}',
    asserted_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, from_id, relationship_type, to_id)
);
-- Not led by tenant_id: with two candidates so led, the planner takes the wrong one while the table is small.
CREATE INDEX edges_by_target ON edges (to_id, tenant_id, relationship_type);

-- Ends of lineage edges between whose columns there is lineage too, which says more than the edge itself.
-- Kept by propagation.
CREATE TABLE refined_pairs (
    tenant_id text NOT NULL,
    from_id   text NOT NULL,
    to_id     text NOT NULL,
    PRIMARY KEY (tenant_id, from_id, to_id)
);

-- What each origin (user, classifier, source) last said about one tag of one asset. What an asset's own
-- events say about its tags is in `assets`; of the two, the later counts.
CREATE TABLE tag_assertions (
    tenant_id  text        NOT NULL,
    asset_id   text        NOT NULL,
    tag        text        NOT NULL,
    source     text        NOT NULL,
    holds      boolean     NOT NULL,
    body       jsonb,
    actor      text        NOT NULL,
    clock_time timestamptz NOT NULL,
    clock_id   uuid        NOT NULL,
    PRIMARY KEY (tenant_id, asset_id, tag, source)
);

-- Assets that a tag does not reach over an edge.
CREATE TABLE tag_opt_outs (
    tenant_id  text        NOT NULL,
    asset_id   text        NOT NULL,
    tag        text        NOT NULL,
    holds      boolean     NOT NULL,
    actor      text        NOT NULL,
    clock_time timestamptz NOT NULL,
    clock_id   uuid        NOT NULL,
    PRIMARY KEY (tenant_id, asset_id, tag)
);

-- How a tag spreads. A tag without a row, or whose row does not hold, spreads as `tag_rule` says.
CREATE TABLE tag_definitions (
    tenant_id          text        NOT NULL,
    tag                text        NOT NULL,
    holds              boolean     NOT NULL,
    along_lineage      boolean     NOT NULL,
    along_containment  boolean     NOT NULL,
    along_indirect     boolean     NOT NULL,
    stopped_by_masking boolean     NOT NULL,
    body               jsonb,
    actor              text        NOT NULL,
    clock_time         timestamptz NOT NULL,
    clock_id           uuid        NOT NULL,
    PRIMARY KEY (tenant_id, tag)
);

-- The least fixed point of docs/lineage.md: which tags are effective where. A fact that is not asserted rests
-- on exactly one edge from another fact (`via_…`); following these always ends at an asserted fact.
-- `is_partial`: the tag came over a refined edge, so it says nothing about each single column.
CREATE TABLE effective_tags (
    tenant_id      text        NOT NULL,
    asset_id       text        NOT NULL,
    tag            text        NOT NULL,
    is_partial     boolean     NOT NULL,
    is_asserted    boolean     NOT NULL,
    via_from       text,
    via_type       text,
    via_is_partial boolean,
    since          timestamptz NOT NULL,
    cause          uuid        NOT NULL,
    PRIMARY KEY (tenant_id, asset_id, tag, is_partial)
);
CREATE INDEX effective_tags_by_support ON effective_tags (via_from, tag, tenant_id);

-- What happened to the effective tags of an asset: its history, and the outbox of the change events.
-- `reasons`: for each tag the cause, the origin and the edge over which it came or went.
CREATE TABLE tag_changes (
    seq        bigint      GENERATED ALWAYS AS IDENTITY,
    tenant_id  text        NOT NULL,
    asset_id   text        NOT NULL,
    event_id   uuid        NOT NULL,
    cause      uuid        NOT NULL,
    added      text[]      NOT NULL,
    removed    text[]      NOT NULL,
    reasons    jsonb       NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, asset_id, seq)
);
CREATE INDEX tag_changes_by_seq ON tag_changes (seq);

-- How far propagation has come in each lane: the seq up to which everything that follows is effective.
CREATE TABLE propagation_positions (
    lane text   PRIMARY KEY,
    seq  bigint NOT NULL
);

-- Assets that stop every tag: deleted, purged, or spoken about before they exist.
CREATE INDEX assets_out_of_the_way ON assets (tenant_id, asset_id)
    WHERE is_deleted OR asset_name IS NULL OR asset_type IS NULL;

-- Written by the pipeline; the gateway reads.
SELECT secure_table(name, 'SELECT') FROM unnest(ARRAY[
    'lineage_events', 'edge_assertions', 'edges', 'refined_pairs', 'tag_assertions', 'tag_opt_outs',
    'tag_definitions', 'effective_tags', 'tag_changes']::regclass[]) AS name;

-- Of no tenant.
DO $$ BEGIN
    EXECUTE format('GRANT SELECT ON propagation_positions TO %I', gateway_role());
END $$;
