-- What people want to be told, and what they were told. Administrative and personal: written here directly, and a
-- change of a subscription is announced in its own transaction (lily.repositories.postgres.announcements).

-- One row per subscription. It tells what its owner may see, decided anew for every change: by the rights the
-- owner has then. `roles` and `groups` are those somebody else vouched for (a token, an identity provider); what the
-- directory gives is looked up. One made with an API key has the key's rights and ends with it.
CREATE TABLE subscriptions (
    tenant_id       text        NOT NULL,
    subscription_id uuid        NOT NULL DEFAULT gen_random_uuid(),
    name            text        NOT NULL,
    owner           text        NOT NULL,
    user_id         uuid,                 -- of the owner, when the directory knows them
    key_id          uuid,
    roles           text[]      NOT NULL,
    groups          text[]      NOT NULL,
    scopes          text[],               -- NULL does not narrow
    selection       jsonb       NOT NULL, -- lily.domain.subscriptions.Selection
    connector_id    text,                 -- NULL: only notifications for the owner
    options         jsonb       NOT NULL DEFAULT '{}',
    title           text,                 -- templates; NULL: Lily's own words
    text            text,
    is_disabled     boolean     NOT NULL DEFAULT false,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, subscription_id)
);
CREATE INDEX subscriptions_by_owner ON subscriptions (tenant_id, lower(owner));

CREATE FUNCTION announce_subscriptions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('lily_access',
        json_build_array('subscriptions', coalesce(NEW.tenant_id, OLD.tenant_id), '')::text);
    RETURN NULL;
END $$;
CREATE TRIGGER subscriptions_announced AFTER INSERT OR UPDATE OR DELETE ON subscriptions
    FOR EACH ROW EXECUTE FUNCTION announce_subscriptions();

-- One row per person and thing that concerns them: everything about one incident, or everything of one cause, is
-- one notification with a count (lily.domain.subscriptions.group_of).
CREATE TABLE notifications (
    tenant_id       text        NOT NULL,
    notification_id uuid        NOT NULL, -- follows from recipient and group_key
    recipient       text        NOT NULL,
    group_key       text        NOT NULL,
    state           text        NOT NULL CHECK (state IN ('new', 'seen', 'acknowledged', 'resolved')),
    count           integer     NOT NULL,
    message         jsonb       NOT NULL, -- the newest (lily.domain.messages.Message)
    asset_id        text,
    incident_id     text,
    snoozed_until   timestamptz,
    assignee        text,
    note            text        NOT NULL DEFAULT '',
    first_at        timestamptz NOT NULL,
    last_at         timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, notification_id)
);
CREATE INDEX notifications_by_recipient ON notifications (tenant_id, lower(recipient), last_at DESC, notification_id);
CREATE INDEX notifications_by_assignee ON notifications (tenant_id, lower(assignee), last_at DESC)
    WHERE assignee IS NOT NULL;

-- What each notification stands for: why it was told. Also the ledger: a change that is here was told already.
CREATE TABLE notification_causes (
    tenant_id       text        NOT NULL,
    subscription_id uuid        NOT NULL,
    cause_key       text        NOT NULL,
    notification_id uuid        NOT NULL,
    change          text        NOT NULL,
    event_id        text        NOT NULL,
    asset_id        text,
    path            text[]      NOT NULL,
    reason          text        NOT NULL,
    applied_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, subscription_id, cause_key)
);
CREATE INDEX notification_causes_by_notification
    ON notification_causes (tenant_id, notification_id, cause_key);

SELECT secure_table(name::regclass) FROM unnest(ARRAY['subscriptions', 'notifications', 'notification_causes']) AS name;
