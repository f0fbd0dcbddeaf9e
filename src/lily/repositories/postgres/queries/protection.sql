-- Protection rules, and the columns they can be about.

-- name: insert_rule
-- PostgresProtectionRules.add.
INSERT INTO protection_rules (tenant_id, rule_id, description, tag, scope, value, includes_contained, effect, mask,
                              masks_by_type, except_roles, except_groups, created_by)
VALUES (%(tenant_id)s, %(rule_id)s, %(description)s, %(tag)s, %(scope)s, %(value)s, %(includes_contained)s,
        %(effect)s, %(mask)s::jsonb, %(masks_by_type)s::jsonb, %(except_roles)s, %(except_groups)s, %(actor)s)
RETURNING rule_id::text, tag, scope, value, includes_contained, effect, mask, masks_by_type, except_roles,
          except_groups, description, created_by, created_at, updated_at

-- name: update_rule
-- PostgresProtectionRules.replace.
UPDATE protection_rules
   SET description = %(description)s, tag = %(tag)s, scope = %(scope)s, value = %(value)s,
       includes_contained = %(includes_contained)s, effect = %(effect)s, mask = %(mask)s::jsonb,
       masks_by_type = %(masks_by_type)s::jsonb, except_roles = %(except_roles)s,
       except_groups = %(except_groups)s, updated_at = clock_timestamp()
 WHERE tenant_id = %(tenant_id)s AND rule_id = %(rule_id)s
RETURNING rule_id::text, tag, scope, value, includes_contained, effect, mask, masks_by_type, except_roles,
          except_groups, description, created_by, created_at, updated_at

-- name: delete_rule
-- PostgresProtectionRules.remove.
DELETE FROM protection_rules WHERE tenant_id = %(tenant_id)s AND rule_id = %(rule_id)s RETURNING 1

-- name: list_rules
-- PostgresProtectionRules.list and .find: in the order of their ids.
SELECT rule_id::text, tag, scope, value, includes_contained, effect, mask, masks_by_type, except_roles,
       except_groups, description, created_by, created_at, updated_at
  FROM protection_rules
 WHERE tenant_id = %(tenant_id)s AND (%(rule_id)s::uuid IS NULL OR rule_id = %(rule_id)s::uuid)
 ORDER BY rule_id

-- name: columns_with_tags
-- PostgresProtectedColumns.with_tags: the columns that have one of the tags, or are in something that has one of
-- those that include what is contained.
WITH tagged AS MATERIALIZED (
    SELECT t.asset_id, t.tag = ANY(%(including_contained)s::text[]) AND NOT t.is_partial AS reaches_below
      FROM effective_tags t
     WHERE t.tenant_id = %(tenant_id)s AND t.tag = ANY(%(tags)s::text[])
), found AS (
    SELECT asset_id FROM tagged
     UNION
    SELECT columns_below(%(tenant_id)s, ARRAY(SELECT DISTINCT asset_id FROM tagged WHERE reaches_below))
)
SELECT * FROM column_facts(%(tenant_id)s, ARRAY(SELECT asset_id FROM found))

-- name: columns_in
-- PostgresProtectedColumns.below: the columns among these assets and in them, whatever their tags.
SELECT * FROM column_facts(%(tenant_id)s, ARRAY(SELECT columns_below(%(tenant_id)s, %(asset_ids)s::text[])))

-- name: next_columns
-- PostgresProtectedColumns.all: the next columns in the order of their ids, whatever their tags.
SELECT a.asset_id, coalesce(a.data_source, ''), coalesce(a.external_id, ''), a.asset_name
  FROM assets a
 WHERE a.tenant_id = %(tenant_id)s AND a.asset_id > %(after)s AND a.asset_type = 'column'
   AND a.asset_name IS NOT NULL AND NOT coalesce(a.is_deleted, false)
 ORDER BY a.asset_id
 LIMIT %(most)s

-- name: protected_assets
-- PostgresProtectedAssets.find: where each asset is, which of the tags it has, and who asserts them on it. Only for
-- an asset somebody has spoken about with such a tag is it found out who still does.
SELECT a.asset_id, coalesce(a.asset_type, ''), coalesce(a.data_source, ''), coalesce(a.external_id, ''),
       coalesce(a.metadata ->> 'connector_id', ''), coalesce(a.metadata ->> 'data_type', ''),
       coalesce(a.is_deleted, false),
       ARRAY(SELECT t.tag FROM effective_tags AS t
              WHERE t.tenant_id = a.tenant_id AND t.asset_id = a.asset_id AND t.tag = ANY(%(tags)s::text[])),
       CASE WHEN a.user_tags && %(tags)s::text[] OR a.source_tags && %(tags)s::text[] OR EXISTS (
                 SELECT FROM tag_assertions AS s WHERE s.tenant_id = a.tenant_id AND s.asset_id = a.asset_id
                    AND s.tag = ANY(%(tags)s::text[]))
            THEN ARRAY(SELECT ARRAY[s.tag, s.source] FROM asserted_on(a.tenant_id, a.asset_id) AS s
                        WHERE s.tag = ANY(%(tags)s::text[]))
            ELSE '{}'::text[] END
  FROM assets AS a
 WHERE a.tenant_id = %(tenant_id)s AND a.asset_id = ANY(%(asset_ids)s::text[])

-- name: carrying_edges
-- PostgresProtectedAssets.carrying: the edges some of the tags rest on where they lead to.
SELECT e.from_id, e.to_id, e.relationship_type, t.tag
  FROM unnest(%(from_ids)s::text[], %(to_ids)s::text[], %(types)s::text[]) AS e (from_id, to_id, relationship_type)
  JOIN effective_tags AS t ON t.tenant_id = %(tenant_id)s AND t.asset_id = e.to_id AND t.tag = ANY(%(tags)s::text[])
   AND t.via_from = e.from_id AND t.via_type = e.relationship_type
