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
