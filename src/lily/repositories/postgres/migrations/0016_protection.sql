-- Protection rules: columns with a tag in a scope are masked or denied, except for some roles and groups.
-- Administrative like policies: written here directly, and every change announced in its own transaction.
CREATE TABLE protection_rules (
    tenant_id          text        NOT NULL,
    rule_id            uuid        NOT NULL DEFAULT gen_random_uuid(),
    description        text        NOT NULL DEFAULT '',
    tag                text        NOT NULL,
    scope              text        NOT NULL CHECK (scope IN ('asset', 'contained', 'source', 'all')),
    value              text        NOT NULL,
    includes_contained boolean     NOT NULL,
    effect             text        NOT NULL CHECK (effect IN ('mask', 'deny')),
    mask               jsonb       NOT NULL, -- lily.domain.masks.read_mask; of a denying rule the null mask
    masks_by_type      jsonb       NOT NULL, -- the same by family of data types
    except_roles       text[]      NOT NULL,
    except_groups      text[]      NOT NULL,
    created_by         text        NOT NULL,
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, rule_id),
    CHECK ((scope = 'all') = (value = ''))
);

CREATE FUNCTION announce_protection() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('lily_access',
        json_build_array('protection', coalesce(NEW.tenant_id, OLD.tenant_id), '')::text);
    RETURN NULL;
END $$;
CREATE TRIGGER protection_rules_announced AFTER INSERT OR UPDATE OR DELETE ON protection_rules
    FOR EACH ROW EXECUTE FUNCTION announce_protection();

SELECT secure_table('protection_rules');
