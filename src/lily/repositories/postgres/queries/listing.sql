-- Lists of assets, with the policies of whoever asks as a condition.

-- name: allowed
-- A fragment: whether the asset `a` may be listed, by the values of lily.access.predicates.Predicate. The names
-- of the values start with {p}; the last test of each tells whether it is contained in one of those. Cheap tests first; OFFSET 0
-- keeps a subquery to the rows that get so far.
(
    coalesce(%({p}allow_all)s
     OR a.asset_id = ANY(%({p}allow_ids)s::text[])
     OR a.asset_type = ANY(%({p}allow_types)s::text[])
     OR a.data_source = ANY(%({p}allow_sources)s::text[])
     OR (cardinality(%({p}allow_tags)s::text[]) > 0
         AND (coalesce(nullif(a.source_tags, '{{}}'), a.user_tags) && %({p}allow_tags)s::text[]
              OR EXISTS (SELECT FROM effective_tags e
                          WHERE e.tenant_id = a.tenant_id AND e.asset_id = a.asset_id
                            AND e.tag = ANY(%({p}allow_tags)s::text[]) OFFSET 0)))
     OR (cardinality(%({p}allow_containers)s::text[]) > 0
         AND (a.asset_id = ANY(%({p}allow_containers)s::text[])
              OR {in_allowed})), false)
    AND NOT (%({p}forbid_all)s
     OR a.asset_id = ANY(%({p}forbid_ids)s::text[])
     OR a.asset_type = ANY(%({p}forbid_types)s::text[])
     OR coalesce(a.data_source = ANY(%({p}forbid_sources)s::text[]), false)
     OR (cardinality(%({p}forbid_tags)s::text[]) > 0
         AND (coalesce(coalesce(nullif(a.source_tags, '{{}}'), a.user_tags) && %({p}forbid_tags)s::text[], false)
              OR EXISTS (SELECT FROM effective_tags e
                          WHERE e.tenant_id = a.tenant_id AND e.asset_id = a.asset_id
                            AND e.tag = ANY(%({p}forbid_tags)s::text[]) OFFSET 0)))
     OR (cardinality(%({p}forbid_containers)s::text[]) > 0
         AND (a.asset_id = ANY(%({p}forbid_containers)s::text[])
              OR {in_forbidden})))
    AND (NOT %({p}columns_only)s
     OR a.asset_type <> ALL(%({p}leaf_types)s::text[])
     OR a.asset_id = ANY(%({p}columns)s::text[])
     OR {in_columns})
)

-- name: contained
-- A fragment: whether the asset `a` is contained in one of these assets, looked up for this asset alone.
is_contained(a.tenant_id, a.asset_id, %({containers})s::text[])

-- name: contained_by_block
-- A fragment: the same, of all assets in a block. Subqueries that depend on nothing, since those are always
-- hashed: how large a block is, the planner does not know.
a.asset_id IN (SELECT d.asset_id FROM directly AS d WHERE d.from_id IN (
    SELECT bottom FROM above WHERE container = ANY(%({containers})s::text[])))

-- name: is_tagged
-- A fragment: whether the asset `a` has any tag.
(coalesce(nullif(a.source_tags, '{{}}'), nullif(a.user_tags, '{{}}')) IS NOT NULL
    OR EXISTS (SELECT FROM effective_tags e WHERE e.tenant_id = a.tenant_id AND e.asset_id = a.asset_id))

-- name: wanted
-- A fragment: whether the asset `a` is among those asked for.
a.tenant_id = %(tenant_id)s AND a.asset_id > %(after)s
    AND a.asset_name IS NOT NULL AND a.asset_type IS NOT NULL
    AND (%(asset_type)s::text IS NULL OR a.asset_type = %(asset_type)s::text)
    AND (%(data_source)s::text IS NULL OR a.data_source = %(data_source)s::text)
    AND (%(asset_owner)s::text IS NULL OR a.asset_owner = %(asset_owner)s::text)
    AND (%(tag)s::text IS NULL
         OR %(tag)s::text = ANY(coalesce(nullif(a.source_tags, '{{}}'), a.user_tags))
         OR EXISTS (SELECT FROM effective_tags e
                     WHERE e.tenant_id = a.tenant_id AND e.asset_id = a.asset_id AND e.tag = %(tag)s::text OFFSET 0))
    AND (%(deleted)s::boolean IS NULL OR coalesce(a.is_deleted, false) = %(deleted)s::boolean)

-- name: list_assets
-- AssetLists.page: a page of the assets the caller may read, in the order of their ids.
SELECT a.asset_id, shown_document(a), {is_tagged} FROM assets a WHERE {wanted} AND {allowed} ORDER BY a.asset_id LIMIT %(limit)s

-- name: list_block
-- AssetLists.page, when policies speak of containers: those of the next assets that the caller may read, and the
-- last one in any case, without its document when it may not be read. The containers of a whole block are
-- looked up at once, since assets side by side are mostly contained in the same; one by one it took four times
-- as long.
WITH RECURSIVE block AS MATERIALIZED (
    SELECT a.asset_id FROM assets a WHERE {wanted} ORDER BY a.asset_id LIMIT %(limit)s
), directly AS MATERIALIZED (
    SELECT b.asset_id, e.from_id FROM block AS b CROSS JOIN LATERAL (
        SELECT from_id FROM edges AS e
         WHERE e.tenant_id = %(tenant_id)s AND e.to_id = b.asset_id AND e.relationship_type = 'contains' OFFSET 0
    ) AS e
), above (bottom, container) AS MATERIALIZED (
    SELECT DISTINCT from_id, from_id FROM directly
     UNION
    SELECT above.bottom, e.from_id FROM above CROSS JOIN LATERAL (
        SELECT from_id FROM edges AS e
         WHERE e.tenant_id = %(tenant_id)s AND e.to_id = above.container AND e.relationship_type = 'contains' OFFSET 0
    ) AS e
)
SELECT b.asset_id, a.document, coalesce(a.is_tagged, false), (SELECT count(*) FROM block)
FROM block AS b LEFT JOIN LATERAL (
    SELECT shown_document(a) AS document, {is_tagged} AS is_tagged
    FROM assets AS a WHERE a.tenant_id = %(tenant_id)s AND a.asset_id = b.asset_id AND {allowed} OFFSET 0
) AS a ON true
WHERE a.document IS NOT NULL OR b.asset_id = (SELECT max(asset_id) FROM block)
ORDER BY b.asset_id

-- name: compare_predicates
-- AssetLists.compare: how many assets one condition lets through and another does not, with some of them.
SELECT count(*) FILTER (WHERE after AND NOT before), count(*) FILTER (WHERE before AND NOT after),
       (array_agg(asset_id ORDER BY asset_id) FILTER (WHERE after AND NOT before))[:%(examples)s],
       (array_agg(asset_id ORDER BY asset_id) FILTER (WHERE before AND NOT after))[:%(examples)s]
  FROM (SELECT a.asset_id, {before} AS before, {after} AS after
          FROM assets a
         WHERE a.tenant_id = %(tenant_id)s AND a.asset_name IS NOT NULL AND a.asset_type IS NOT NULL) AS compared
 WHERE before <> after
