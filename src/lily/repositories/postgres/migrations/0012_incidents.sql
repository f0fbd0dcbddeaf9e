-- Incidents: what systems that watch data report about assets. A report is a step, a statement on
-- `metadata-events`; the steps themselves are in `lineage_events` (kind 'incident', from_id the incident).

-- One row per incident: the newest word on each field. `said` holds the fields, `clocks` for each the time and
-- id of the step that spoke last about it: {"<field>": [microseconds, "<event id>"]}. `asset_id` is the asset that
-- `said.names` lead to (incident_asset), NULL while there is none.
CREATE TABLE incidents (
    tenant_id   text        NOT NULL,
    incident_id text        NOT NULL,
    asset_id    text,
    said        jsonb       NOT NULL,
    clocks      jsonb       NOT NULL,
    opened_at   timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    status      text        GENERATED ALWAYS AS (coalesce(said ->> 'status', 'open')) STORED,
    severity    text        GENERATED ALWAYS AS (said ->> 'severity') STORED,
    owner       text        GENERATED ALWAYS AS (said ->> 'owner') STORED,
    source      text        GENERATED ALWAYS AS (said ->> 'source') STORED,
    PRIMARY KEY (tenant_id, incident_id)
);
CREATE INDEX incidents_in_order ON incidents (tenant_id, opened_at DESC, incident_id DESC);
-- Not led by tenant_id: with several candidates so led, the planner takes the wrong one while the table is small.
CREATE INDEX incidents_by_asset ON incidents (asset_id, tenant_id) WHERE asset_id IS NOT NULL;
CREATE INDEX incidents_pending ON incidents (tenant_id, asset_id) WHERE status <> 'resolved' AND asset_id IS NOT NULL;

-- What assets an incident may be about, in lower case: to find it when such an asset comes, changes or goes.
CREATE TABLE incident_names (
    tenant_id   text NOT NULL,
    name        text NOT NULL,
    incident_id text NOT NULL,
    PRIMARY KEY (tenant_id, name, incident_id)
);
CREATE INDEX incident_names_of ON incident_names (incident_id, tenant_id);

-- What happened to incidents, as told on `metadata-changes`. Two write it, each in the order of `seq`: the
-- lineage lane, which applies steps, and propagation, which attaches incidents to assets that come later.
CREATE TABLE incident_changes (
    seq         bigint      GENERATED ALWAYS AS IDENTITY,
    writer      text        NOT NULL CHECK (writer IN ('lane', 'propagation')),
    tenant_id   text        NOT NULL,
    incident_id text        NOT NULL,
    asset_id    text,
    event_id    uuid        NOT NULL,
    cause       uuid        NOT NULL,
    event_time  timestamptz NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    outcome     text        NOT NULL,
    actor       text        NOT NULL,
    changed     text[]      NOT NULL,
    incident    json        NOT NULL,
    PRIMARY KEY (tenant_id, incident_id, seq)
);
CREATE INDEX incident_changes_by_seq ON incident_changes (writer, seq);

-- Assets by what their sources call them; columns and BI fields, which come by the million, are left out.
CREATE INDEX assets_by_external_id ON assets (left(lower(external_id), 256), tenant_id)
    WHERE external_id IS NOT NULL AND asset_type <> ALL ('{column,bi_field,field}'::text[]);
CREATE INDEX assets_by_name ON assets (left(lower(asset_name), 256), tenant_id)
    WHERE asset_name IS NOT NULL AND asset_type <> ALL ('{column,bi_field,field}'::text[]);

-- Written by the pipeline; the gateway reads.
SELECT secure_table(name, 'SELECT')
  FROM unnest(ARRAY['incidents', 'incident_names', 'incident_changes']::regclass[]) AS name;
