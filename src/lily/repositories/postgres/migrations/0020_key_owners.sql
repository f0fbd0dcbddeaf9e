-- The roles and groups a key's owner had when it was made. Those an identity provider alone knows are not in the
-- directory; what is forbidden to them is forbidden to the key (access/books.py).
ALTER TABLE api_keys
    ADD COLUMN owner_roles text[] NOT NULL DEFAULT '{}',
    ADD COLUMN owner_groups text[] NOT NULL DEFAULT '{}';
