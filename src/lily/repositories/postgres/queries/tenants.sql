-- Who the tenants are, where they live and what they may use.

-- name: find_tenant
-- Tenants.find: where one tenant lives, its limits and what it has.
SELECT t.tenant_id, t.cell, t.state, t.requests_per_second, t.events_per_second, t.max_assets, t.max_bytes,
       t.assets, t.bytes, t.settings, t.version, t.created_at, t.updated_at
  FROM tenants t WHERE t.tenant_id = %(tenant_id)s

-- name: make_tenant
-- Tenants.find_or_make: a tenant comes into being when it is first heard of.
INSERT INTO tenants (tenant_id) VALUES (%(tenant_id)s) ON CONFLICT DO NOTHING

-- name: put_settings
-- Tenants.put_settings: nothing is found when the version is no longer the expected one.
UPDATE tenants SET settings = %(settings)s, version = version + 1, updated_at = clock_timestamp()
 WHERE tenant_id = %(tenant_id)s AND version = coalesce(%(version)s, version)
RETURNING version

-- name: list_sources
-- Tenants.sources
SELECT s.data_source, s.assets, s.bytes, s.last_event, s.counted_at
  FROM tenant_sources s WHERE s.tenant_id = %(tenant_id)s
 ORDER BY s.assets DESC, s.data_source LIMIT 1000

-- name: find_cell
-- TenantCells: where a dedicated cell is.
SELECT cell, "database", topic_prefix, lake_namespace FROM cells WHERE cell = %(cell)s

-- name: beat
-- TenantRoutes, every second and when a tenant's writes were stopped.
SELECT tenant, requests_share, events_share
  FROM gateway_beat(%(worker)s, %(paused)s, %(tenants)s::text[], %(requests)s::real[], %(events)s::real[])
