-- What tenants have. All called by the counter of usage in the streams process, as the owner.

-- name: list_uncounted
-- Of each lane up to where its changes were counted, and up to where they can be.
SELECT l.lane, coalesce(p.seq, 0), lane_end(l.lane)
  FROM unnest('{structural,leaf}'::text[]) AS l (lane)
  LEFT JOIN relay_positions AS p ON p.relay = 'usage-' || l.lane
 WHERE coalesce(p.seq, 0) < lane_end(l.lane)

-- name: busy_tenants
SELECT DISTINCT tenant_id FROM changes WHERE lane = %(lane)s AND seq > %(after)s AND seq <= %(until)s

-- name: forget_sources
DELETE FROM tenant_sources WHERE tenant_id = %(tenant_id)s

-- name: count_sources
-- Deleted assets take room and are not counted; what was purged takes next to none.
INSERT INTO tenant_sources
SELECT a.tenant_id, coalesce(a.data_source, ''), count(*) FILTER (WHERE NOT coalesce(a.is_deleted, false)),
       sum(pg_column_size(a)), max(a.clock_time), clock_timestamp()
  FROM assets AS a
 WHERE a.tenant_id = %(tenant_id)s AND a.asset_name IS NOT NULL AND a.asset_type IS NOT NULL
 GROUP BY 1, 2

-- name: sum_sources
SELECT coalesce(sum(assets), 0), coalesce(sum(bytes), 0) FROM tenant_sources WHERE tenant_id = %(tenant_id)s

-- name: record_usage
INSERT INTO tenants AS t (tenant_id, assets, bytes) VALUES (%(tenant_id)s, %(assets)s, %(bytes)s)
ON CONFLICT (tenant_id) DO UPDATE SET assets = excluded.assets, bytes = excluded.bytes
 WHERE (t.assets, t.bytes) IS DISTINCT FROM (excluded.assets, excluded.bytes)
