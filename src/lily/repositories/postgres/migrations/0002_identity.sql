-- Who is known: people, their groups and what those are good for, sessions, API keys, and what was revoked.

-- One row per person. `document` is the rest of the SCIM resource. `password_hash` is NULL for people who log
-- in elsewhere. `version` is the ETag.
CREATE TABLE users (
    tenant_id     text        NOT NULL,
    user_id       uuid        NOT NULL DEFAULT gen_random_uuid(),
    user_name     text        NOT NULL,
    external_id   text,
    active        boolean     NOT NULL DEFAULT true,
    roles         text[]      NOT NULL DEFAULT '{}',
    password_hash text,
    document      jsonb       NOT NULL DEFAULT '{}',
    version       integer     NOT NULL DEFAULT 1,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, user_id)
);
CREATE UNIQUE INDEX users_by_name ON users (tenant_id, lower(user_name));
CREATE INDEX users_by_external_id ON users (tenant_id, external_id) WHERE external_id IS NOT NULL;

CREATE TABLE groups (
    tenant_id    text        NOT NULL,
    group_id     uuid        NOT NULL DEFAULT gen_random_uuid(),
    display_name text        NOT NULL,
    external_id  text,
    version      integer     NOT NULL DEFAULT 1,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, group_id)
);
CREATE UNIQUE INDEX groups_by_name ON groups (tenant_id, display_name);

CREATE TABLE group_members (
    tenant_id text NOT NULL,
    group_id  uuid NOT NULL,
    user_id   uuid NOT NULL,
    display   text,
    PRIMARY KEY (tenant_id, group_id, user_id),
    FOREIGN KEY (tenant_id, group_id) REFERENCES groups ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, user_id) REFERENCES users ON DELETE CASCADE
);
CREATE INDEX group_members_by_user ON group_members (tenant_id, user_id);

-- Which roles the members of a group have. By name, so that it holds for groups that SCIM provisions and for
-- those an identity provider names in its tokens.
CREATE TABLE group_roles (
    tenant_id  text NOT NULL,
    group_name text NOT NULL,
    role       text NOT NULL,
    PRIMARY KEY (tenant_id, group_name, role)
);

-- One row per login. `user_id` is NULL for people an identity provider vouched for, whose `groups` are those
-- of their ID token.
CREATE TABLE sessions (
    tenant_id  text        NOT NULL,
    session_id uuid        NOT NULL DEFAULT gen_random_uuid(),
    user_id    uuid,
    subject    text        NOT NULL,
    roles      text[]      NOT NULL DEFAULT '{}',
    groups     text[]      NOT NULL DEFAULT '{}',
    scopes     text[],
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    PRIMARY KEY (tenant_id, session_id)
);
CREATE INDEX sessions_by_subject ON sessions (tenant_id, lower(subject));
CREATE INDEX sessions_by_age ON sessions (expires_at);

-- Every refresh token of a session that was ever given out; one that comes back after it was used is stolen.
CREATE TABLE refresh_tokens (
    tenant_id  text  NOT NULL,
    token_hash bytea NOT NULL,
    session_id uuid  NOT NULL,
    used_at    timestamptz,
    PRIMARY KEY (tenant_id, token_hash),
    FOREIGN KEY (tenant_id, session_id) REFERENCES sessions ON DELETE CASCADE
);
CREATE INDEX refresh_tokens_by_session ON refresh_tokens (tenant_id, session_id);

-- Keys of machines. The secret has 256 random bits, so a plain hash of it is as good as a slow one.
CREATE TABLE api_keys (
    tenant_id    text        NOT NULL,
    key_id       uuid        NOT NULL DEFAULT gen_random_uuid(),
    name         text        NOT NULL,
    owner        text        NOT NULL,
    secret_hash  bytea       NOT NULL,
    roles        text[]      NOT NULL,
    scopes       text[],
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz NOT NULL,
    last_used_at timestamptz,
    revoked_at   timestamptz,
    PRIMARY KEY (tenant_id, key_id)
);
CREATE INDEX api_keys_by_owner ON api_keys (tenant_id, lower(owner));
CREATE UNIQUE INDEX api_keys_by_name ON api_keys (tenant_id, lower(name)) WHERE revoked_at IS NULL;

-- Tokens of no session that were logged out before they expired.
CREATE TABLE revoked_tokens (
    tenant_id     text        NOT NULL,
    credential_id text        NOT NULL,
    expires_at    timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, credential_id)
);
CREATE INDEX revoked_tokens_by_age ON revoked_tokens (expires_at);

-- Failed logins within a window, by who was asked for and by where from.
CREATE TABLE login_attempts (
    tenant_id  text        NOT NULL,
    bucket     text        NOT NULL,
    attempts   integer     NOT NULL,
    started_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, bucket)
);
CREATE INDEX login_attempts_by_age ON login_attempts (started_at);

-- The processes that remember who may do what, each with how far it has heard and until when it relies on
-- being told (lily.repositories.postgres.announcements).
CREATE TABLE access_listeners (
    listener    uuid        PRIMARY KEY,
    heard       bigint      NOT NULL,
    lease_until timestamptz NOT NULL
);
CREATE SEQUENCE access_rounds;

-- What is remembered about a person ends with any change of their row; their sessions and keys end when they
-- are deactivated or deleted, by whichever way.
CREATE FUNCTION announce_user() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    person users := coalesce(OLD, NEW);
BEGIN
    IF TG_OP = 'DELETE' OR (TG_OP = 'UPDATE' AND NOT NEW.active) THEN
        UPDATE sessions SET revoked_at = clock_timestamp()
         WHERE tenant_id = person.tenant_id AND revoked_at IS NULL
           AND (user_id = person.user_id OR lower(subject) = lower(person.user_name));
        UPDATE api_keys SET revoked_at = clock_timestamp()
         WHERE tenant_id = person.tenant_id AND revoked_at IS NULL AND lower(owner) = lower(person.user_name);
    END IF;
    PERFORM pg_notify('lily_access', json_build_array('user', person.tenant_id, lower(person.user_name))::text);
    IF TG_OP = 'UPDATE' AND lower(NEW.user_name) <> lower(OLD.user_name) THEN
        PERFORM pg_notify('lily_access', json_build_array('user', NEW.tenant_id, lower(NEW.user_name))::text);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER users_announced AFTER INSERT OR UPDATE OR DELETE ON users
    FOR EACH ROW EXECUTE FUNCTION announce_user();

-- Who is in which group, and what that is good for, concerns the whole tenant.
CREATE FUNCTION announce_groups() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('lily_access', json_build_array('group', coalesce(NEW.tenant_id, OLD.tenant_id), '')::text);
    RETURN NULL;
END $$;
CREATE TRIGGER groups_announced AFTER INSERT OR UPDATE OR DELETE ON groups
    FOR EACH ROW EXECUTE FUNCTION announce_groups();
CREATE TRIGGER group_members_announced AFTER INSERT OR UPDATE OR DELETE ON group_members
    FOR EACH ROW EXECUTE FUNCTION announce_groups();
CREATE TRIGGER group_roles_announced AFTER INSERT OR UPDATE OR DELETE ON group_roles
    FOR EACH ROW EXECUTE FUNCTION announce_groups();

-- A session or key that was revoked is announced, too.
CREATE FUNCTION announce_revocation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('lily_access', json_build_array(TG_ARGV[0], NEW.tenant_id, to_jsonb(NEW) ->> TG_ARGV[1])::text);
    RETURN NULL;
END $$;
CREATE TRIGGER sessions_announced AFTER UPDATE OF revoked_at ON sessions
    FOR EACH ROW EXECUTE FUNCTION announce_revocation('session', 'session_id');
CREATE TRIGGER api_keys_announced AFTER UPDATE OF revoked_at ON api_keys
    FOR EACH ROW EXECUTE FUNCTION announce_revocation('key', 'key_id');
CREATE TRIGGER revoked_tokens_announced AFTER INSERT ON revoked_tokens
    FOR EACH ROW EXECUTE FUNCTION announce_revocation('token', 'credential_id');

SELECT secure_table(name::regclass)
  FROM unnest(ARRAY['users', 'groups', 'group_members', 'group_roles', 'sessions', 'refresh_tokens', 'api_keys',
                    'revoked_tokens', 'login_attempts']) AS name;
DO $$ BEGIN
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON access_listeners TO %I', gateway_role());
    EXECUTE format('GRANT USAGE, SELECT ON SEQUENCE access_rounds TO %I', gateway_role());
END $$;
