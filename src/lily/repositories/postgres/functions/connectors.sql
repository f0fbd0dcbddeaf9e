-- Connectors of every tenant, for the processes that work for all of them. Runs with the owner's rights, answers
-- no secret, and only the gateway's role may call it. Replaced by every `lily migrate`.

-- The connectors of these types, those that are disabled included. Called by PostgresConnectors.everywhere.
CREATE OR REPLACE FUNCTION connectors_everywhere(
    types text[],
    OUT tenant_id text, OUT connector_id text, OUT type text, OUT name text, OUT config jsonb,
    OUT is_disabled boolean, OUT secrets text[], OUT created_by text,
    OUT created_at timestamptz, OUT updated_at timestamptz
) RETURNS SETOF record LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
SELECT c.tenant_id, c.connector_id::text, c.type, c.name, c.config, c.is_disabled,
       ARRAY(SELECT s.name FROM secrets s
              WHERE s.tenant_id = c.tenant_id AND s.owner = 'connector/' || c.connector_id ORDER BY s.name),
       c.created_by, c.created_at, c.updated_at
  FROM connectors c WHERE c.type = ANY (types) ORDER BY c.tenant_id, c.name
$$;

DO $$ BEGIN
    REVOKE ALL ON FUNCTION connectors_everywhere(text[]) FROM PUBLIC;
    EXECUTE format('GRANT EXECUTE ON FUNCTION connectors_everywhere(text[]) TO %I', gateway_role());
END $$;
