-- What is yet to be told of a single tag is kept as it was found: its event and the words for its reason are made when
-- it is told (told_reasons), not while those who wait for the tag itself look on.
ALTER TABLE untold_tag_changes
    DROP COLUMN event_id,
    ALTER COLUMN reasons DROP NOT NULL,
    ADD COLUMN via_from text,
    ADD COLUMN via_type text,
    ADD COLUMN origin text;
DROP FUNCTION IF EXISTS settle_lone_assets(), seen_differently();
DROP FUNCTION IF EXISTS node_shown(text, text, text, text, text, boolean); -- it is `node_opened` now
