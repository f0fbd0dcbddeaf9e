-- The round an event is applied in, numbered before it is copied (repositories/postgres/rounds.py).
ALTER TABLE leaf_staging ADD COLUMN round integer NOT NULL DEFAULT 0;
