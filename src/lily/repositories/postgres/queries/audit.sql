-- The audit: adding entries to the chains.

-- name: bind_tenant
-- Called by the writer before each tenant's entries: row-level security lets in only this tenant's.
SELECT set_config('lily.tenant', %(tenant_id)s, true)

-- name: lock_head
-- Called by the writer: whoever has the row adds to the chain, the others wait.
SELECT seq, hash, seal FROM audit_heads WHERE tenant_id = %(tenant_id)s FOR UPDATE

-- name: begin_chain
-- Called by the writer for a tenant's first entry; of two who begin at once, one waits for the other.
INSERT INTO audit_heads (tenant_id, seq, hash, seal) VALUES (%(tenant_id)s, 0, %(hash)s, %(seal)s)
ON CONFLICT (tenant_id) DO NOTHING

-- name: add_entries
-- Called by the writer.
INSERT INTO audit (tenant_id, seq, at, actor, acting_as, address, action, resource_kind, resource_id, allowed,
                   reason, trace_id, event_id, events, hash)
SELECT %(tenant_id)s, * FROM unnest(
    %(seq)s::bigint[], %(at)s::timestamptz[], %(actor)s::text[], %(acting_as)s::text[], %(address)s::text[],
    %(action)s::text[], %(resource_kind)s::text[], %(resource_id)s::text[], %(allowed)s::boolean[],
    %(reason)s::text[], %(trace_id)s::text[], %(event_id)s::uuid[], %(events)s::integer[],
    %(hash)s::bytea[])

-- name: move_head
-- Called by the writer after the entries it points to.
UPDATE audit_heads SET seq = %(seq)s, hash = %(hash)s, seal = %(seal)s WHERE tenant_id = %(tenant_id)s

-- name: read_source
-- Called by the writer before it takes entries from a source.
SELECT position FROM audit_sources WHERE source = %(source)s

-- name: write_source
-- Called by the writer in the transaction of the entries: they are taken once.
INSERT INTO audit_sources VALUES (%(source)s, %(position)s)
ON CONFLICT (source) DO UPDATE SET position = excluded.position

-- name: forget_source
-- Called by the writer when a spool is empty and gone.
DELETE FROM audit_sources WHERE source = %(source)s

-- name: entries
-- A fragment: the columns of RecordedEntry.
SELECT a.seq, a.at, a.actor, a.acting_as, a.address, a.action, a.resource_kind, a.resource_id, a.allowed, a.reason,
       a.trace_id, a.event_id, a.events, a.hash
  FROM audit AS a

-- name: wanted
-- A fragment: which entries, by the values of AuditFilter.
(%(actor)s::text IS NULL OR a.actor = %(actor)s)
   AND (%(action)s::text IS NULL OR a.action = %(action)s)
   AND (%(allowed)s::boolean IS NULL OR a.allowed = %(allowed)s)
   AND (%(trace_id)s::text IS NULL OR a.trace_id = %(trace_id)s)
   AND (%(since)s::timestamptz IS NULL OR a.at >= %(since)s)
   AND (%(until)s::timestamptz IS NULL OR a.at < %(until)s)

-- name: about
-- A fragment: about what, by the values of AuditFilter.
(%(resource_kind)s::text IS NULL OR a.resource_kind = %(resource_kind)s)
   AND (%(resource_id)s::text IS NULL OR a.resource_id = %(resource_id)s)

-- name: list_newest
-- Called by GET /lily/v1/audit: a page of a tenant's entries, newest first.
{entries}
 WHERE a.tenant_id = %(tenant_id)s AND a.seq < %(place)s
   AND {about}
   AND {wanted}
 ORDER BY a.seq DESC LIMIT %(limit)s

-- name: list_oldest
-- Called by exports: the next entries of a tenant, oldest first.
{entries}
 WHERE a.tenant_id = %(tenant_id)s AND a.seq > %(place)s
   AND {about}
   AND {wanted}
 ORDER BY a.seq LIMIT %(limit)s

-- name: list_batches_of
-- Called by GET /lily/v1/metadata/audit/…, in the database of the tenant's cell: the batches that wrote an asset.
SELECT DISTINCT batch_of(event_id) FROM changes
 WHERE asset_id = %(asset_id)s AND tenant_id = %(tenant_id)s

-- name: list_of_asset
-- Called by GET /lily/v1/metadata/audit/…: a page of what concerns one asset, newest first. A batch names no asset:
-- list_batches_of tells which ones wrote it.
{entries}
 WHERE a.tenant_id = %(tenant_id)s AND a.seq < %(place)s
   AND a.seq IN (
       SELECT seq FROM audit
        WHERE tenant_id = %(tenant_id)s AND resource_id = %(resource_id)s AND resource_id <> ''
          AND resource_kind = 'asset'
        UNION ALL
       SELECT member.seq
         FROM unnest(%(batches)s::uuid[]) AS batch (id)
         JOIN audit AS member ON member.tenant_id = %(tenant_id)s AND member.event_id = batch.id)
   AND {wanted}
 ORDER BY a.seq DESC LIMIT %(limit)s

-- name: read_chain
-- Called by `lily audit verify`: a whole chain, as its hashes see it (lily.domain.audit.entry_line).
SELECT seq, hash, tenant_id, actor, acting_as, address, action, resource_kind, resource_id, allowed, reason, trace_id,
       (extract(epoch FROM at) * 1000000)::bigint, replace(event_id::text, '-', ''), events
  FROM audit WHERE tenant_id = %(tenant_id)s ORDER BY seq

-- name: read_heads
-- Called by `lily audit verify`: every chain there is, also one that lost its head.
SELECT coalesce(h.tenant_id, a.tenant_id), h.seq, h.hash, h.seal
  FROM audit_heads AS h
  FULL JOIN (SELECT DISTINCT tenant_id FROM audit) AS a ON a.tenant_id = h.tenant_id
 WHERE %(tenant_id)s = '' OR coalesce(h.tenant_id, a.tenant_id) = %(tenant_id)s
 ORDER BY 1

-- name: read_writes
-- Called by the write audit: what the next changes of a lane did, one row per batch of events (and trace).
-- A batch that is in the audit already is left out: a replay writes its changes again. The last row says only how
-- far this reaches.
-- Grouped first by what is cheap to compare, all of an id but its last byte: `batch_of` is called once for that.
WITH parts AS (
    SELECT tenant_id, actor, traceparent, outcome, substring(uuid_send(event_id) FOR 15) AS members,
           any_value(event_id) AS event_id, any_value(asset_id) AS asset_id, count(*) AS events,
           min(applied_at) AS at, min(seq) AS seq, max(seq) AS last
      FROM (SELECT seq, tenant_id, asset_id, event_id, actor, traceparent, outcome, applied_at FROM changes
             WHERE lane = %(lane)s AND seq > %(after)s AND seq <= lane_end(%(lane)s)
             ORDER BY seq LIMIT %(most)s) AS next
     GROUP BY 1, 2, 3, 4, 5
), written AS (
    SELECT tenant_id, batch_of(event_id) AS batch, actor, split_part(coalesce(traceparent, ''), '-', 2) AS trace_id,
           CASE WHEN sum(events) = 1 THEN min(asset_id) ELSE '' END AS asset_id, min(at) AS at,
           sum(events)::integer AS events, array_agg(outcome) AS outcomes, array_agg(events) AS counts, min(seq) AS seq
      FROM parts GROUP BY 1, 2, 3, 4
)
SELECT w.tenant_id, w.actor, w.trace_id, w.asset_id, w.at, w.batch, w.events, w.outcomes, w.counts, w.seq, NULL
  FROM written AS w
 WHERE w.events + coalesce((SELECT sum(a.events) FROM audit AS a
                             WHERE a.tenant_id = w.tenant_id AND a.event_id = w.batch), 0) <= batch_size(w.batch)
 UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, max(last) FROM parts
 ORDER BY 10 NULLS LAST

-- name: read_beyond
-- Called by the copy to the lake, which has put what it knows into a temporary table.
SELECT a.tenant_id, a.seq, a.at, a.actor, a.acting_as, a.address, a.action, a.resource_kind, a.resource_id, a.allowed,
       a.reason, a.trace_id, a.event_id::text AS event_id, a.events, a.hash
  FROM audit_heads AS h
  LEFT JOIN audit_known AS k ON k.tenant_id = h.tenant_id
 CROSS JOIN LATERAL (
       SELECT * FROM audit WHERE audit.tenant_id = h.tenant_id AND audit.seq > coalesce(k.seq, 0)
        ORDER BY audit.seq LIMIT $1) AS a
 WHERE h.seq > coalesce(k.seq, 0)
 ORDER BY a.tenant_id, a.seq LIMIT $1

-- name: count_told
-- Called by the write audit of a dedicated cell: how many events of these batches are in the audit.
SELECT a.tenant_id, a.event_id, sum(a.events)
  FROM unnest(%(tenants)s::text[], %(batches)s::uuid[]) AS asked (tenant_id, batch)
  JOIN audit AS a ON a.tenant_id = asked.tenant_id AND a.event_id = asked.batch
 GROUP BY 1, 2
