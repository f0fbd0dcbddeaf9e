-- The systems a tenant connects Lily with, in either direction. Low in volume and administrative: written here
-- directly, not over the log. Their secrets are in `secrets`, under the owner 'connector/<connector_id>'.
-- Every change is announced in its own transaction (lily.repositories.postgres.announcements).
CREATE TABLE connectors (
    tenant_id    text        NOT NULL,
    connector_id uuid        NOT NULL DEFAULT gen_random_uuid(),
    type         text        NOT NULL,
    name         text        NOT NULL,
    config       jsonb       NOT NULL DEFAULT '{}',
    is_disabled  boolean     NOT NULL DEFAULT false,
    created_by   text        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, connector_id),
    UNIQUE (tenant_id, name)
);
CREATE INDEX connectors_by_type ON connectors (type);

CREATE FUNCTION announce_connector() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed connectors := coalesce(NEW, OLD);
BEGIN
    PERFORM pg_notify('lily_access',
        json_build_array('connector', changed.tenant_id, changed.connector_id::text)::text);
    RETURN NULL;
END $$;
CREATE TRIGGER connectors_announced AFTER INSERT OR UPDATE OR DELETE ON connectors
    FOR EACH ROW EXECUTE FUNCTION announce_connector();

SELECT secure_table('connectors', 'SELECT, INSERT, UPDATE, DELETE');
