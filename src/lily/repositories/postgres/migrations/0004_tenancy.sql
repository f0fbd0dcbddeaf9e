-- Row-level security on every table with a tenant_id, and what the gateway's role may do.

SELECT secure_table('assets', 'SELECT');
SELECT secure_table('changes', 'SELECT');
SELECT secure_table('dead_letters', 'SELECT');
SELECT secure_table('idempotency_keys', 'SELECT, INSERT');

-- Of no tenant: how far the queries are and which process is well.
DO $$ BEGIN
    EXECUTE format('GRANT SELECT ON stream_positions, heartbeats TO %I', gateway_role());
END $$;

-- Nobody but the owner ever sees a batch under way. Not forced: PostgreSQL refuses COPY where row-level security
-- holds for the one who copies.
ALTER TABLE leaf_staging ENABLE ROW LEVEL SECURITY;

-- A record's place says whose it is, so its tenant can lead the key; a record without one has the tenant ''.
ALTER TABLE dead_letters DROP CONSTRAINT dead_letters_pkey;
ALTER TABLE dead_letters ADD PRIMARY KEY (tenant_id, topic, "partition", "offset");

-- The tables from here on count in the shared cell's database; in a dedicated cell's they stay empty, but for
-- tenant_sources.

-- Where tenants live that do not live in the shared cell: each row is a database, a prefix of topics, a namespace
-- in the lake and a set of streaming queries. Of no tenant.
CREATE TABLE cells (
    cell           text        PRIMARY KEY,
    "database"     text        NOT NULL UNIQUE,
    topic_prefix   text        NOT NULL UNIQUE,
    lake_namespace text        NOT NULL UNIQUE,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row per tenant, made on first use. A limit that is NULL is the installation's default, 0 is none.
-- `assets` and `bytes` are what the tenant had when last counted.
CREATE TABLE tenants (
    tenant_id           text        PRIMARY KEY,
    cell                text        NOT NULL DEFAULT 'shared',
    state               text        NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'moving', 'deleting')),
    requests_per_second integer     CHECK (requests_per_second >= 0),
    events_per_second   integer     CHECK (events_per_second >= 0),
    max_assets          bigint      CHECK (max_assets >= 0),
    max_bytes           bigint      CHECK (max_bytes >= 0),
    assets              bigint      NOT NULL DEFAULT 0,
    bytes               bigint      NOT NULL DEFAULT 0,
    settings            jsonb       NOT NULL DEFAULT '{}',
    version             integer     NOT NULL DEFAULT 1,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at          timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- A tenant may come into being and have its own settings changed; where it lives and its limits are the operator's.
SELECT secure_table('tenants', 'SELECT, INSERT (tenant_id), UPDATE (settings, version, updated_at)');

-- What every tenant has, by source: counted from its assets now and then, so that asking is cheap.
CREATE TABLE tenant_sources (
    tenant_id   text        NOT NULL,
    data_source text        NOT NULL,
    assets      bigint      NOT NULL,
    bytes       bigint      NOT NULL,
    last_event  timestamptz NOT NULL,
    counted_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, data_source)
);
SELECT secure_table('tenant_sources', 'SELECT');

-- Every process of the gateway that is alive, and for which tenants it has stopped writing. Of no tenant's data;
-- reached through gateway_beat alone.
CREATE UNLOGGED TABLE gateway_workers (
    worker  uuid        PRIMARY KEY,
    paused  text[]      NOT NULL,
    beat_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- How much of its quotas a tenant asks for at each worker, while it asks for much.
CREATE UNLOGGED TABLE quota_demands (
    tenant_id text        NOT NULL,
    worker    uuid        NOT NULL,
    requests  real        NOT NULL,
    events    real        NOT NULL,
    beat_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, worker)
);
SELECT secure_table('quota_demands', 'SELECT');

CREATE FUNCTION tell_tenant_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('lily_tenants', CASE TG_OP WHEN 'DELETE' THEN old.tenant_id || ' deleted'
                                      ELSE new.tenant_id || ' ' || new.state END);
    RETURN NULL;
END $$;
CREATE TRIGGER tenants_tell AFTER UPDATE OR DELETE ON tenants
    FOR EACH ROW EXECUTE FUNCTION tell_tenant_change();

DO $$ BEGIN
    EXECUTE format('GRANT SELECT ON cells TO %I', gateway_role());
END $$;
