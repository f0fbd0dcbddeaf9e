-- The ledger tells what was carried out. A plan is `waiting` while somebody is in the way of a part of it; a statement
-- `is_meanwhile` when it denies until a masking view can be made, and `is_said` once it was carried out: null while
-- nobody knows, and for plans of before.
ALTER TABLE enforcement_plans DROP CONSTRAINT enforcement_plans_state_check;
ALTER TABLE enforcement_plans ADD CONSTRAINT enforcement_plans_state_check
    CHECK (state IN ('planned', 'applied', 'waiting', 'failed'));
ALTER TABLE enforcement_statements ADD COLUMN is_meanwhile boolean NOT NULL DEFAULT false, ADD COLUMN is_said boolean;
