-- Who did what: one chain of entries per tenant, to which rows can only be added.

-- `hash` covers the entry and the hash before it (lily.domain.audit). The chain '*' belongs to no tenant.
CREATE TABLE audit (
    tenant_id     text        NOT NULL,
    seq           bigint      NOT NULL,
    at            timestamptz NOT NULL,
    actor         text        NOT NULL,
    acting_as     text        NOT NULL,
    address       text        NOT NULL,
    action        text        NOT NULL,
    resource_kind text        NOT NULL,
    resource_id   text        NOT NULL,
    allowed       boolean     NOT NULL,
    reason        text        NOT NULL,
    trace_id      text        NOT NULL,
    event_id      uuid,
    events        integer     NOT NULL,
    hash          bytea       NOT NULL,
    PRIMARY KEY (tenant_id, seq)
);
CREATE INDEX audit_by_resource ON audit (tenant_id, resource_id, seq) WHERE resource_id <> '';
CREATE INDEX audit_by_actor ON audit (tenant_id, actor, seq);
CREATE INDEX audit_by_event ON audit (tenant_id, event_id) WHERE event_id IS NOT NULL;

-- Where each chain ends, sealed with a key that is not in the database. Locking its row gives the turn to add.
CREATE TABLE audit_heads (
    tenant_id text  PRIMARY KEY,
    seq       bigint NOT NULL,
    hash      bytea  NOT NULL,
    seal      bytea  NOT NULL
);

-- How far each source of entries (a gateway's spool, a lane's changes) is in the chains. Written with the entries.
CREATE TABLE audit_sources (
    source   text   PRIMARY KEY,
    position bigint NOT NULL
);

CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit is append-only: % of % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_heads_stay BEFORE DELETE OR TRUNCATE ON audit_heads
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_heads_move_on BEFORE UPDATE ON audit_heads
    FOR EACH ROW WHEN (new.seq <= old.seq OR new.tenant_id <> old.tenant_id) EXECUTE FUNCTION refuse_audit_change();

SELECT secure_table('audit', 'SELECT, INSERT');
SELECT secure_table('audit_heads', 'SELECT, INSERT, UPDATE');
DO $$ BEGIN
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON audit_sources TO %I', gateway_role());
END $$;
