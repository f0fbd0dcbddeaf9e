-- What protection rules can depend on, for sets of columns. Replaced by every `lily migrate`.

-- The columns among these assets and in them, at any depth; deleted ones and other things are left out.
-- Called by PostgresProtectedColumns.below.
CREATE OR REPLACE FUNCTION columns_below(tenant text, assets_above text[]) RETURNS SETOF text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH RECURSIVE below AS (
        SELECT asset_id FROM unnest(assets_above) AS asset_id
         UNION
        SELECT e.to_id FROM below JOIN edges AS e
            ON e.tenant_id = tenant AND e.from_id = below.asset_id AND e.relationship_type = 'contains')
    SELECT asset_id FROM below
$$;

-- For each of these that is a column: what it is, its effective tags, everything it is contained in, and the
-- effective tags of that. A partial tag says nothing about each single column, so from above it does not count.
-- Called by the queries about columns in protection.sql.
CREATE OR REPLACE FUNCTION column_facts(tenant text, columns text[])
RETURNS TABLE (asset_id text, data_source text, external_id text, asset_name text, data_type text,
               connector_id text, tags text[], containers text[], tags_above text[])
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH RECURSIVE above AS (
        SELECT e.to_id AS of_column, e.from_id AS container FROM edges AS e
         WHERE e.tenant_id = tenant AND e.to_id = ANY(columns) AND e.relationship_type = 'contains'
         UNION
        SELECT above.of_column, e.from_id FROM above JOIN edges AS e
            ON e.tenant_id = tenant AND e.to_id = above.container AND e.relationship_type = 'contains'
    ), around AS MATERIALIZED (
        SELECT of_column, array_agg(container) AS containers FROM above GROUP BY of_column
    ), inherited AS MATERIALIZED (
        SELECT t.asset_id, array_agg(t.tag) AS tags FROM effective_tags AS t
         WHERE t.tenant_id = tenant AND NOT t.is_partial AND t.asset_id IN (SELECT container FROM above)
         GROUP BY t.asset_id
    )
    SELECT a.asset_id, coalesce(a.data_source, ''), coalesce(a.external_id, ''), a.asset_name,
           coalesce(a.metadata ->> 'data_type', ''), coalesce(a.metadata ->> 'connector_id', ''),
           further_tags(tenant, a.asset_id), coalesce(around.containers, '{}'),
           ARRAY(SELECT DISTINCT tag FROM inherited AS i CROSS JOIN LATERAL unnest(i.tags) AS tag
                  WHERE i.asset_id = ANY(around.containers))
      FROM assets AS a LEFT JOIN around ON around.of_column = a.asset_id
     WHERE a.tenant_id = tenant AND a.asset_id = ANY(columns) AND a.asset_type = 'column'
       AND a.asset_name IS NOT NULL AND NOT coalesce(a.is_deleted, false)
$$;
