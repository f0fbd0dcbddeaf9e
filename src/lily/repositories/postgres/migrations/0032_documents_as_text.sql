-- What is shown of assets and told of changes is written as text now (functions/assets.sql).
DROP FUNCTION IF EXISTS asset_document(changes), asset_document(assets), field_names(smallint);
DROP TYPE told_change, shown_asset, shown_assertions;
