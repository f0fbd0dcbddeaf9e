-- What Lily did in the databases whose columns it protects. Written by the enforcer, with the owner's rights;
-- the gateway reads, and asks for work by a row in `enforcement_requests`.

-- One row per piece of work on one database, written before it begins. `state`: planned, applied, or failed;
-- a planned one of a process that died is settled by the next look at the database, which finds what is missing.
CREATE TABLE enforcement_plans (
    tenant_id    text        NOT NULL,
    plan_id      uuid        NOT NULL,
    connector_id uuid        NOT NULL,
    reason       text        NOT NULL, -- what led to it: tags, rules, check, request, start
    state        text        NOT NULL DEFAULT 'planned' CHECK (state IN ('planned', 'applied', 'failed')),
    detail       jsonb       NOT NULL DEFAULT '{}',
    planned_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    settled_at   timestamptz,
    PRIMARY KEY (tenant_id, plan_id)
);
CREATE INDEX enforcement_plans_by_target ON enforcement_plans (tenant_id, connector_id, planned_at);

-- The statements of a plan in their order, and those that would undo them.
CREATE TABLE enforcement_statements (
    tenant_id text    NOT NULL,
    plan_id   uuid    NOT NULL,
    place     integer NOT NULL,
    relation  text    NOT NULL,
    statement text    NOT NULL,
    is_undo   boolean NOT NULL,
    PRIMARY KEY (tenant_id, plan_id, place),
    FOREIGN KEY (tenant_id, plan_id) REFERENCES enforcement_plans ON DELETE CASCADE
);

-- How each database is, as of the last look: state is enforced, incomplete (something waits or failed),
-- unreachable, or released. `detail`: problems, excepted logins, what waits and what failed.
CREATE TABLE enforcement_targets (
    tenant_id    text        NOT NULL,
    connector_id uuid        NOT NULL,
    state        text        NOT NULL,
    detail       jsonb       NOT NULL,
    checked_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, connector_id)
);

-- What is protected in each database: the columns with what protects them, and since when it is live.
CREATE TABLE enforcement_relations (
    tenant_id    text        NOT NULL,
    connector_id uuid        NOT NULL,
    relation     text        NOT NULL,
    state        text        NOT NULL CHECK (state IN ('live', 'waiting', 'failed')),
    columns      jsonb       NOT NULL,
    detail       text        NOT NULL DEFAULT '',
    since        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, connector_id, relation)
);

-- Work somebody asked for, until it is done.
CREATE TABLE enforcement_requests (
    tenant_id    text        NOT NULL,
    request_id   uuid        NOT NULL,
    connector_id uuid        NOT NULL,
    actor        text        NOT NULL,
    asked_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    done_at      timestamptz,
    outcome      jsonb,
    PRIMARY KEY (tenant_id, request_id)
);

CREATE FUNCTION announce_enforcement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('lily_access', json_build_array('enforcement', NEW.tenant_id, NEW.connector_id)::text);
    RETURN NULL;
END $$;
CREATE TRIGGER enforcement_requested AFTER INSERT ON enforcement_requests
    FOR EACH ROW EXECUTE FUNCTION announce_enforcement();

SELECT secure_table(name) FROM unnest(ARRAY[
    'enforcement_plans', 'enforcement_statements', 'enforcement_targets', 'enforcement_relations',
    'enforcement_requests']::regclass[]) AS name;
