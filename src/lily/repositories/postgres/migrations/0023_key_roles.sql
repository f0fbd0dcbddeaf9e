-- The roles a key's owner had by the credential it was made with, and not by the directory: nobody can ask whether
-- they still have those. Of all others the directory knows (access/credentials.py).
ALTER TABLE api_keys ADD COLUMN vouched_roles text[] NOT NULL DEFAULT '{}';
