-- How many deliveries to a target are dead since the last that arrived: one that fails too often is switched off.
ALTER TABLE delivery_targets ADD COLUMN dead_in_row integer NOT NULL DEFAULT 0;

-- What notifications stood for is forgotten when nothing happened to them for long.
CREATE INDEX notification_causes_old ON notification_causes (applied_at);
