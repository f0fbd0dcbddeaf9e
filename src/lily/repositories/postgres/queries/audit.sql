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
                   reason, trace_id, event_id, hash)
SELECT %(tenant_id)s, * FROM unnest(
    %(seq)s::bigint[], %(at)s::timestamptz[], %(actor)s::text[], %(acting_as)s::text[], %(address)s::text[],
    %(action)s::text[], %(resource_kind)s::text[], %(resource_id)s::text[], %(allowed)s::boolean[],
    %(reason)s::text[], %(trace_id)s::text[], %(event_id)s::uuid[], %(hash)s::bytea[])

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
