-- Secrets of connectors and targets: each encrypted with a key of its own, and that key with one from outside.
CREATE TABLE secrets (
    tenant_id   text        NOT NULL,
    owner       text        NOT NULL,
    name        text        NOT NULL,
    key_id      text        NOT NULL,
    wrapped_key bytea       NOT NULL,
    ciphertext  bytea       NOT NULL,
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, owner, name)
);
SELECT secure_table('secrets', 'SELECT, INSERT, UPDATE, DELETE');
