-- What is to be told to targets, and what came of it. All of it is in the shared cell's database, whichever cell
-- the tenant lives in: a move between cells tells nothing twice.

-- One message of one subscription about one cause. `delivery_id` is made from these three, so that it is the same
-- whoever makes it and however often. `queue` is the asset (or the group, for what has none): the messages of a
-- queue are sent one after the other, in the order of `seq`.
CREATE TABLE deliveries (
    tenant_id       text        NOT NULL,
    delivery_id     uuid        NOT NULL,
    seq             bigint      GENERATED ALWAYS AS IDENTITY,
    subscription_id text        NOT NULL,
    cause           text        NOT NULL,
    connector_id    uuid        NOT NULL,
    options         jsonb       NOT NULL,
    queue           text        NOT NULL,
    asset_id        text,
    group_key       text        NOT NULL,
    message         jsonb       NOT NULL,
    told_at         timestamptz NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    status          text        NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'dead')),
    attempts        integer     NOT NULL DEFAULT 0,
    failures        integer     NOT NULL DEFAULT 0,
    -- An attempt has begun of which it is not known whether the target took it.
    is_uncertain    boolean     NOT NULL DEFAULT false,
    first_attempt   timestamptz,
    finished_at     timestamptz,
    error           text        NOT NULL DEFAULT '',
    rendered        text        NOT NULL DEFAULT '',
    log             jsonb       NOT NULL DEFAULT '[]',
    PRIMARY KEY (tenant_id, delivery_id),
    UNIQUE (tenant_id, subscription_id, cause)
);
CREATE INDEX deliveries_waiting ON deliveries (tenant_id, connector_id, queue, seq) WHERE status = 'pending';
CREATE INDEX deliveries_newest ON deliveries (tenant_id, seq);
CREATE INDEX deliveries_finished ON deliveries (finished_at) WHERE status <> 'pending';

-- The queues that have something pending. Who holds one sends its first message; a lease ends with its time, or
-- with the session of its holder, which has an advisory lock on its number.
CREATE TABLE delivery_queues (
    tenant_id    text        NOT NULL,
    connector_id uuid        NOT NULL,
    queue        text        NOT NULL,
    pending      integer     NOT NULL,
    next_at      timestamptz NOT NULL,
    holder       integer,
    lease_until  timestamptz,
    PRIMARY KEY (tenant_id, connector_id, queue)
);
CREATE INDEX delivery_queues_due ON delivery_queues (tenant_id, connector_id, next_at) WHERE pending > 0;
CREATE INDEX delivery_queues_next ON delivery_queues (next_at) WHERE pending > 0;

-- The targets that were ever told something; nothing is sent to one that asked to be left alone for a while.
CREATE TABLE delivery_targets (
    tenant_id    text        NOT NULL,
    connector_id uuid        NOT NULL,
    held_until   timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (tenant_id, connector_id)
);

-- Where a target shows what a group of messages is about, so that the next one of the group goes to the same
-- place. `opener` is the delivery that makes the place; until it has, `place` is NULL and the others wait.
CREATE TABLE delivery_threads (
    tenant_id       text        NOT NULL,
    connector_id    uuid        NOT NULL,
    subscription_id text        NOT NULL,
    group_key       text        NOT NULL,
    opener          uuid        NOT NULL,
    place           jsonb,
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, connector_id, subscription_id, group_key)
);
CREATE INDEX delivery_threads_old ON delivery_threads (updated_at);

SELECT secure_table('deliveries', 'SELECT, INSERT, UPDATE');
SELECT secure_table('delivery_queues', 'SELECT, INSERT, UPDATE');
SELECT secure_table('delivery_targets', 'SELECT, INSERT');
SELECT secure_table('delivery_threads', 'SELECT');
