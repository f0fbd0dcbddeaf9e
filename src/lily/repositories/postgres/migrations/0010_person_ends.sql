-- What a person's credentials survive: a new name or password ends their sessions, and their keys follow them
-- under the new name, so that deactivating them later finds the keys.
CREATE OR REPLACE FUNCTION announce_user() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    person users := coalesce(OLD, NEW);
    is_renamed boolean := TG_OP = 'UPDATE' AND lower(NEW.user_name) <> lower(OLD.user_name);
BEGIN
    IF TG_OP = 'DELETE' OR is_renamed OR (TG_OP = 'UPDATE' AND (
            NOT NEW.active OR NEW.password_hash IS DISTINCT FROM OLD.password_hash)) THEN
        UPDATE sessions SET revoked_at = clock_timestamp()
         WHERE tenant_id = person.tenant_id AND revoked_at IS NULL
           AND (user_id = person.user_id OR lower(subject) = lower(person.user_name));
    END IF;
    IF TG_OP = 'DELETE' OR (TG_OP = 'UPDATE' AND NOT NEW.active) THEN
        UPDATE api_keys SET revoked_at = clock_timestamp()
         WHERE tenant_id = person.tenant_id AND revoked_at IS NULL AND lower(owner) = lower(person.user_name);
    ELSIF is_renamed THEN
        UPDATE api_keys SET owner = NEW.user_name
         WHERE tenant_id = OLD.tenant_id AND lower(owner) = lower(OLD.user_name);
    END IF;
    PERFORM pg_notify('lily_access', json_build_array('user', person.tenant_id, lower(person.user_name))::text);
    IF is_renamed THEN
        PERFORM pg_notify('lily_access', json_build_array('user', NEW.tenant_id, lower(NEW.user_name))::text);
    END IF;
    RETURN NULL;
END $$;
