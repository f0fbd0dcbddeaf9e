-- The wall between tenants. Run by every `lily migrate` before the numbered migrations, which call it.

-- Makes a table with a tenant_id obey row-level security, and gives the gateway's role these privileges on it.
-- A session sees and writes only the rows of the tenant in `lily.tenant`; without one it sees nothing. The
-- owner, who writes batches of many tenants, is let through by a policy of its own, which is not inherited.
-- Called by every migration that makes a table with a tenant_id: SELECT secure_table('edges', 'SELECT').
CREATE OR REPLACE FUNCTION secure_table(
    name regclass, gateway_may text DEFAULT 'SELECT, INSERT, UPDATE, DELETE'
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('DROP POLICY IF EXISTS tenant ON %s', name);
    EXECUTE format('DROP POLICY IF EXISTS owner ON %s', name);
    EXECUTE format(
        'CREATE POLICY tenant ON %s USING (tenant_id = current_setting(''lily.tenant'', true))', name);
    EXECUTE format('CREATE POLICY owner ON %s TO CURRENT_USER USING (true)', name);
    EXECUTE format('REVOKE ALL ON %s FROM PUBLIC, %I', name, gateway_role());
    EXECUTE format('GRANT %s ON %s TO %I', gateway_may, name, gateway_role());
END $$;

-- The role the gateway connects with, as `lily migrate` was told.
CREATE OR REPLACE FUNCTION gateway_role() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('lily.gateway_role', true), ''), 'lily_gateway')
$$;
