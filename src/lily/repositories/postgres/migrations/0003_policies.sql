-- Who may do what to which assets. Low in volume and administrative: written here directly, not over the log.
-- Every change is announced in its own transaction (lily.repositories.postgres.announcements).

-- One row per policy. Whom: exactly one of user_id, role and group_name. Which assets: `scope` with `value`, the
-- id of an asset (also in `asset_id`), a tag, a type or a source; 'all' has none.
CREATE TABLE policies (
    tenant_id   text        NOT NULL,
    policy_id   uuid        NOT NULL DEFAULT gen_random_uuid(),
    user_id     text,
    role        text,
    group_name  text,
    access_type text        NOT NULL CHECK (access_type IN ('READ', 'WRITE', 'DELETE')),
    effect      text        NOT NULL CHECK (effect IN ('allow', 'forbid')),
    scope       text        NOT NULL CHECK (scope IN ('asset', 'contained', 'tag', 'type', 'source', 'all')),
    value       text        NOT NULL,
    asset_id    text        GENERATED ALWAYS AS (CASE WHEN scope IN ('asset', 'contained') THEN value END) STORED,
    conditions  jsonb       NOT NULL DEFAULT '{}',
    created_by  text        NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, policy_id),
    CHECK (num_nonnulls(user_id, role, group_name) = 1),
    CHECK ((scope = 'all') = (value = ''))
);

-- One row per role the tenant defined, or per default role that was given members. Its members also have the
-- roles it includes.
CREATE TABLE roles (
    tenant_id   text        NOT NULL,
    role        text        NOT NULL,
    description text        NOT NULL DEFAULT '',
    includes    text[]      NOT NULL DEFAULT '{}',
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, role)
);
CREATE TABLE role_members (
    tenant_id text NOT NULL,
    role      text NOT NULL,
    kind      text NOT NULL CHECK (kind IN ('user', 'group')),
    member    text NOT NULL,
    PRIMARY KEY (tenant_id, role, kind, member),
    FOREIGN KEY (tenant_id, role) REFERENCES roles ON DELETE CASCADE
);

-- The columns the scrapers of a group may touch: their ids, or ids of assets that contain them.
CREATE TABLE scraper_policies (
    tenant_id       text        NOT NULL,
    policy_id       uuid        NOT NULL DEFAULT gen_random_uuid(),
    scraper_group   text        NOT NULL,
    allowed_columns text[]      NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, scraper_group)
);

CREATE FUNCTION announce_rules() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('lily_access',
        json_build_array('rules', coalesce(NEW.tenant_id, OLD.tenant_id), '')::text);
    RETURN NULL;
END $$;
CREATE TRIGGER policies_announced AFTER INSERT OR UPDATE OR DELETE ON policies
    FOR EACH ROW EXECUTE FUNCTION announce_rules();
CREATE TRIGGER roles_announced AFTER INSERT OR UPDATE OR DELETE ON roles
    FOR EACH ROW EXECUTE FUNCTION announce_rules();
CREATE TRIGGER role_members_announced AFTER INSERT OR UPDATE OR DELETE ON role_members
    FOR EACH ROW EXECUTE FUNCTION announce_rules();
CREATE TRIGGER scraper_policies_announced AFTER INSERT OR UPDATE OR DELETE ON scraper_policies
    FOR EACH ROW EXECUTE FUNCTION announce_rules();

SELECT secure_table(name::regclass)
  FROM unnest(ARRAY['policies', 'roles', 'role_members', 'scraper_policies']) AS name;
