-- What the operator does with tenants and cells, as the owner of the tables (`lily tenant …`).

-- name: list_tenants
-- all_tenants
SELECT tenant_id, cell, state, requests_per_second, events_per_second, max_assets, max_bytes,
       assets, bytes, settings, version, created_at, updated_at
  FROM tenants ORDER BY cell <> 'shared', cell, tenant_id

-- name: find_tenant
SELECT tenant_id, cell, state, requests_per_second, events_per_second, max_assets, max_bytes,
       assets, bytes, settings, version, created_at, updated_at
  FROM tenants WHERE tenant_id = %(tenant_id)s

-- name: list_cells
-- The streams process every few seconds, and `lily tenant list`.
SELECT cell, "database", topic_prefix, lake_namespace FROM cells ORDER BY cell

-- name: make_cell
INSERT INTO cells VALUES (%(name)s, %(database)s, %(topic_prefix)s, %(lake_namespace)s) ON CONFLICT DO NOTHING

-- name: forget_cell
DELETE FROM cells WHERE cell = %(cell)s AND NOT EXISTS (SELECT FROM tenants t WHERE t.cell = cells.cell)
RETURNING cell

-- name: runs_queries
-- TenantAdmin.runs_queries: as the pipeline, if it is alive, said last.
SELECT EXISTS (
    SELECT FROM heartbeats AS h CROSS JOIN LATERAL jsonb_object_keys(h.details -> 'queries') AS q (name)
     WHERE h.beat_at > clock_timestamp() - make_interval(secs => %(alive)s) AND starts_with(q.name, %(cell)s || '/'))

-- name: make_tenant
INSERT INTO tenants (tenant_id, cell) VALUES (%(tenant_id)s, %(cell)s) ON CONFLICT DO NOTHING RETURNING tenant_id

-- name: set_limit
-- Limits.or_default says what NULL and 0 mean.
UPDATE tenants SET {limit} = %(value)s, updated_at = clock_timestamp() WHERE tenant_id = %(tenant_id)s

-- name: set_state
UPDATE tenants SET state = %(state)s, updated_at = clock_timestamp() WHERE tenant_id = %(tenant_id)s

-- name: settle
-- A move's last act: from here on the tenant lives there.
UPDATE tenants SET cell = %(cell)s, state = 'active', updated_at = clock_timestamp()
 WHERE tenant_id = %(tenant_id)s

-- name: count_writing
-- How many processes of the gateway live and may still write for the tenant.
SELECT count(*) FROM gateway_workers
 WHERE beat_at > clock_timestamp() - make_interval(secs => %(alive)s) AND NOT %(tenant_id)s = ANY(paused)

-- name: describe_state
-- What a move compares: how many events counted, and a hash of each kind of thing. What depends on how the lanes met, or
-- on when something was applied, is left out: versions, the edge a tag rests on, since when.
SELECT (SELECT count(*) FROM changes WHERE tenant_id = %(tenant_id)s)
     + (SELECT count(*) FROM lineage_events WHERE tenant_id = %(tenant_id)s),
       (SELECT md5(coalesce(string_agg((asset_json(a)::jsonb - 'version')::text, ',' ORDER BY asset_id), ''))
          FROM assets a WHERE a.tenant_id = %(tenant_id)s),
       (SELECT md5(coalesce(string_agg(concat_ws(',', from_id, to_id, relationship_type, is_indirect, is_masking, subtype,
                   blocked_tags, sources), ';' ORDER BY from_id, to_id, relationship_type), ''))
          FROM edges WHERE tenant_id = %(tenant_id)s),
       (SELECT md5(coalesce(string_agg(fact, ';' ORDER BY fact COLLATE "C"), '')) FROM (
            SELECT concat_ws(',', 'said', asset_id, tag, source, holds, clock_id) FROM tag_assertions
             WHERE tenant_id = %(tenant_id)s
             UNION ALL
            SELECT concat_ws(',', 'opted out', asset_id, tag, holds, clock_id) FROM tag_opt_outs
             WHERE tenant_id = %(tenant_id)s
             UNION ALL
            SELECT concat_ws(',', 'defined', tag, holds, body, clock_id) FROM tag_definitions
             WHERE tenant_id = %(tenant_id)s
             UNION ALL
            SELECT concat_ws(',', 'in force', asset_id, tag, is_partial, is_asserted) FROM effective_tags
             WHERE tenant_id = %(tenant_id)s) AS facts (fact)),
       (SELECT md5(coalesce(string_agg(concat_ws(',', incident_id, asset_id, said, clocks), ';' ORDER BY incident_id), ''))
          FROM incidents WHERE tenant_id = %(tenant_id)s)

-- name: read_keys
SELECT tenant_id, actor, key, request_hash, event_id, created_at FROM idempotency_keys
 WHERE tenant_id = %(tenant_id)s

-- name: write_key
INSERT INTO idempotency_keys VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING

-- name: read_offsets
-- How far the lanes of a cell have come.
SELECT query, offsets FROM stream_positions

-- name: forget_rows
DELETE FROM {table} WHERE tenant_id = %(tenant_id)s

-- name: list_tenant_tables
SELECT c.relname::text
  FROM pg_class c
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
 WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace AND c.relforcerowsecurity
