-- Functions over tags, replaced by every `lily migrate`.

-- The tags in force on an asset, asserted or propagated. For every decision that depends on tags.
CREATE OR REPLACE FUNCTION tags_in_force(tenant text, asset text) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(array_agg(DISTINCT e.tag ORDER BY e.tag), '{}') FROM effective_tags AS e
     WHERE e.tenant_id = tenant AND e.asset_id = asset
$$;
