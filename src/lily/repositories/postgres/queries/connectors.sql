-- The systems a tenant connects Lily with. Their secrets are written with the queries of secrets.sql.

-- name: insert_connector
-- PostgresConnectors.add: nothing when one of that name is there.
INSERT INTO connectors (tenant_id, type, name, config, created_by)
VALUES (%(tenant_id)s, %(type)s, %(name)s, %(config)s::jsonb, %(created_by)s)
ON CONFLICT (tenant_id, name) DO NOTHING
RETURNING connector_id::text

-- name: update_connector
-- PostgresConnectors.change: what is NULL stays as it is.
UPDATE connectors
   SET name = coalesce(%(name)s, name), config = coalesce(%(config)s::jsonb, config),
       is_disabled = coalesce(%(is_disabled)s, is_disabled), updated_at = clock_timestamp()
 WHERE tenant_id = %(tenant_id)s AND connector_id = %(connector_id)s
RETURNING connector_id::text

-- name: list_connectors
-- PostgresConnectors.list and find, by name; NULL stands for all.
SELECT tenant_id, connector_id::text, type, name, config, is_disabled,
       ARRAY(SELECT s.name FROM secrets s
              WHERE s.tenant_id = c.tenant_id AND s.owner = 'connector/' || c.connector_id ORDER BY s.name),
       created_by, created_at, updated_at
  FROM connectors c
 WHERE tenant_id = %(tenant_id)s AND (%(connector_id)s::uuid IS NULL OR connector_id = %(connector_id)s::uuid)
 ORDER BY name LIMIT 1000

-- name: is_enforced
-- PostgresConnectors.remove: a row when its database was worked on and that is not taken back.
SELECT t.state FROM enforcement_targets t JOIN connectors c USING (tenant_id, connector_id)
 WHERE t.tenant_id = %(tenant_id)s AND t.connector_id = %(connector_id)s AND t.state <> 'released'
   AND (t.state <> 'unreachable' OR EXISTS (
        SELECT FROM enforcement_plans p WHERE p.tenant_id = t.tenant_id AND p.connector_id = t.connector_id))

-- name: delete_connector
-- PostgresConnectors.remove: its secrets go with it.
WITH removed AS (
    DELETE FROM connectors WHERE tenant_id = %(tenant_id)s AND connector_id = %(connector_id)s
    RETURNING tenant_id, connector_id
), forgotten AS (
    DELETE FROM secrets s USING removed r
     WHERE s.tenant_id = r.tenant_id AND s.owner = 'connector/' || r.connector_id
)
SELECT connector_id::text FROM removed

-- name: list_connectors_everywhere
-- PostgresConnectors.everywhere: of all tenants, by a function with the owner's rights.
SELECT tenant_id, connector_id, type, name, config, is_disabled, secrets, created_by, created_at, updated_at
  FROM connectors_everywhere(%(types)s)
