-- What tags mean: who asserts them, how they spread. Replaced by every `lily migrate`.
-- These functions are the rule; tests/kit/lineage_model.py is its oracle.

-- When an asset's own events last spoke about a field: `clock_time` and `clock_id`, or the field's own clock.
-- Called by assertions_on.
CREATE OR REPLACE FUNCTION field_clock(a assets, field integer, OUT at timestamptz, OUT id uuid)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN a.fields & field <> 0 THEN a.clock_time
                ELSE timestamptz 'epoch' + ((a.clocks -> field::text ->> 0)::bigint * interval '1 microsecond') END,
           CASE WHEN a.fields & field <> 0 THEN a.clock_id ELSE (a.clocks -> field::text ->> 1)::uuid END
$$;

-- What every source last said about every tag of an asset. A source (`source` or `user`) may speak through the
-- asset's events, which name all its tags at once, and through single statements: the later counts.
-- Called by propagation and by the answers about an asset's classification.
CREATE OR REPLACE FUNCTION assertions_on(tenant text, asset text)
RETURNS TABLE (tag text, source text, holds boolean, at timestamptz, id uuid, actor text, body jsonb)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH lists AS MATERIALIZED (
        SELECT l.source, coalesce(l.tags, '{}') AS tags, c.at, c.id
          FROM assets AS a
         CROSS JOIN LATERAL (VALUES ('source', 128, a.source_tags), ('user', 256, a.user_tags))
               AS l (source, field, tags)
         CROSS JOIN LATERAL field_clock(a, l.field) AS c
         WHERE a.tenant_id = tenant AND a.asset_id = asset AND c.at IS NOT NULL
    ), listed AS (
        SELECT t.tag, l.source, true AS holds, l.at, l.id, NULL::text AS actor, NULL::jsonb AS body
          FROM lists AS l CROSS JOIN LATERAL unnest(l.tags) AS t (tag)
    ), single AS (
        SELECT s.tag, s.source, s.holds, s.clock_time, s.clock_id, s.actor, s.body
          FROM tag_assertions AS s WHERE s.tenant_id = tenant AND s.asset_id = asset
    )
    SELECT l.* FROM listed AS l
     WHERE NOT EXISTS (SELECT FROM single AS s WHERE s.tag = l.tag AND s.source = l.source
                          AND (s.clock_time, s.clock_id) > (l.at, l.id))
     UNION ALL
    SELECT s.* FROM single AS s
     WHERE NOT EXISTS (SELECT FROM lists AS l WHERE l.source = s.source
                          AND (l.at, l.id) > (s.clock_time, s.clock_id))
$$;

-- The assertions that hold: not retracted by their source, nor since then by everybody's retraction ('*').
CREATE OR REPLACE FUNCTION asserted_on(tenant text, asset text)
RETURNS TABLE (tag text, source text, at timestamptz, id uuid, actor text, body jsonb)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH said AS MATERIALIZED (SELECT * FROM assertions_on(tenant, asset))
    SELECT s.tag, s.source, s.at, s.id, s.actor, s.body FROM said AS s
     WHERE s.holds AND NOT EXISTS (
           SELECT FROM said AS r WHERE r.source = '*' AND r.tag = s.tag AND (r.at, r.id) > (s.at, s.id))
$$;

-- What an asset's own fields say that is declared to spread like a tag: owner, business terms and retention class, as
-- the tags `@owner:…`, `@term:…` and `@retention:…` (lily.domain.tags.SPREADING). Called by roots_on.
CREATE OR REPLACE FUNCTION spreading_fields(tenant text, asset text) RETURNS SETOF text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT rtrim(d.tag, '*') || v.value
      FROM tag_definitions AS d
      JOIN assets AS a ON a.tenant_id = tenant AND a.asset_id = asset
     CROSS JOIN LATERAL unnest(CASE d.tag WHEN '@owner:*' THEN ARRAY[a.asset_owner] WHEN '@term:*' THEN a.business_terms
           ELSE ARRAY[a.metadata ->> 'retention_class'] END) AS v (value)
     WHERE d.tenant_id = tenant AND d.tag = ANY('{@owner:*,@term:*,@retention:*}') AND d.holds AND v.value <> ''
$$;

-- The tags whose spreading begins at an asset. Called by propagation and by `lily lineage rebuild`.
CREATE OR REPLACE FUNCTION roots_on(tenant text, asset text) RETURNS SETOF text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT DISTINCT r.tag FROM (SELECT unnest(
           -- About most assets nobody but their own events ever said anything: what these list, which always has a
           -- clock, is asserted (assertions_on). Asked like this an asset takes 10 µs instead of 55.
           CASE WHEN EXISTS (SELECT FROM tag_assertions AS s WHERE s.tenant_id = tenant AND s.asset_id = asset OFFSET 0)
                THEN ARRAY(SELECT o.tag FROM asserted_on(tenant, asset) AS o)
                ELSE (SELECT a.source_tags || a.user_tags FROM assets AS a
                       WHERE a.tenant_id = tenant AND a.asset_id = asset OFFSET 0) END
           || CASE WHEN tenant = ANY(ARRAY(SELECT d.tenant_id FROM tag_definitions AS d
                        WHERE d.tag = ANY('{@owner:*,@term:*,@retention:*}') AND d.holds))
                   THEN ARRAY(SELECT spreading_fields(tenant, asset)) END) AS tag) AS r
     WHERE octet_length(asset) + octet_length(r.tag) < 2500 -- what does not fit into an index stays where it is
$$;

-- Whether nothing comes to an asset or goes through it. One that Lily has never heard of is not in the way.
CREATE OR REPLACE FUNCTION is_out_of_the_way(tenant text, asset text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT EXISTS (SELECT FROM assets AS a WHERE a.tenant_id = tenant AND a.asset_id = asset
                      AND (a.is_deleted OR a.asset_name IS NULL OR a.asset_type IS NULL))
$$;

-- Whether what is asserted on an asset counts. Nothing does on one that is deleted, purged or not there yet, unless
-- the tenant keeps what came from such assets (the definition of `*`).
CREATE OR REPLACE FUNCTION is_heard(tenant text, asset text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT NOT is_out_of_the_way(tenant, asset)
        OR EXISTS (SELECT FROM tag_definitions AS d WHERE d.tenant_id = tenant AND d.tag = '*' AND d.holds
                      AND d.body ->> 'keep_when_deleted' = 'true')
$$;

-- The definition a tag spreads by: its own, or that of all owners, terms or retention classes.
CREATE OR REPLACE FUNCTION defined_by(tag text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN tag ~ '^@(owner|term|retention):' THEN split_part(tag, ':', 1) || ':*' ELSE tag END
$$;

-- How a tag spreads: as its definition says; without one PII and GDPR go along direct lineage until they are
-- masked, and every other tag stays where it is. `types` are the edges it can go along at all.
CREATE OR REPLACE FUNCTION tag_rule(
    tenant text, name text, OUT along_lineage boolean, OUT along_containment boolean,
    OUT along_indirect boolean, OUT stopped_by_masking boolean, OUT types text[]
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT r.lineage, r.containment, r.indirect, r.masking,
           CASE WHEN r.lineage THEN '{derived-from,used-in,depends-on,uses}'::text[] ELSE '{}' END
        || CASE WHEN r.containment THEN '{contains}'::text[] ELSE '{}' END
      FROM (SELECT name IN ('PII', 'GDPR') AS is_built_in) AS b
      LEFT JOIN tag_definitions AS d ON d.tenant_id = tenant AND d.tag = defined_by(name) AND d.holds
     CROSS JOIN LATERAL (SELECT
           coalesce(d.along_lineage, b.is_built_in) AS lineage, coalesce(d.along_containment, false) AS containment,
           coalesce(d.along_indirect, false) AS indirect, coalesce(d.stopped_by_masking, true) AS masking) AS r
$$;

-- What becomes of a tag that goes over an edge: NULL when it is not let through, false when it then stands for
-- all of the target, true when only for a part of it: the columns that lineage of their own leads to.
-- Such a tag does not go down to the columns.
CREATE OR REPLACE FUNCTION carried_as_partial(
    e edges, tag text, along_lineage boolean, along_containment boolean, along_indirect boolean,
    stopped_by_masking boolean, is_partial boolean, is_refined boolean
) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN tag = ANY(e.blocked_tags) OR '*' = ANY(e.blocked_tags) THEN NULL
        WHEN e.is_masking AND stopped_by_masking THEN NULL
        WHEN e.relationship_type = 'contains' THEN CASE WHEN along_containment AND NOT is_partial THEN false END
        WHEN NOT along_lineage OR e.is_indirect AND NOT along_indirect THEN NULL
        ELSE along_containment AND is_refined END
$$;

-- Whether columns of one asset lead to columns of another.
CREATE OR REPLACE FUNCTION is_refined_by_columns(tenant text, upstream text, downstream text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT EXISTS (
        SELECT FROM edges AS held
          JOIN edges AS led ON led.tenant_id = tenant AND led.to_id = held.to_id
               AND led.relationship_type <> 'contains'
          JOIN edges AS holding ON holding.tenant_id = tenant AND holding.from_id = upstream
               AND holding.relationship_type = 'contains' AND holding.to_id = led.from_id
         WHERE held.tenant_id = tenant AND held.from_id = downstream AND held.relationship_type = 'contains')
$$;

-- The tags that were effective on an asset at a time, or became so within the minute after, which is more than
-- propagation takes. Called wherever access to an earlier state is decided.
CREATE OR REPLACE FUNCTION tags_at(tenant text, asset text, moment timestamptz) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT ARRAY(SELECT latest.tag FROM (
        SELECT DISTINCT ON (said.tag) said.tag, said.held
          FROM tag_changes AS t
         CROSS JOIN LATERAL (
            SELECT unnest(t.added), true UNION ALL SELECT unnest(t.removed), false) AS said (tag, held)
         WHERE t.tenant_id = tenant AND t.asset_id = asset AND t.applied_at <= moment + interval '1 minute'
         ORDER BY said.tag, t.seq DESC, said.held) AS latest
     WHERE latest.held)
$$;

-- What is shown of an edge besides its ends, as a part of its JSON: just its sources if, as for most, there is no more
-- to say (Edges.json).
CREATE OR REPLACE FUNCTION edge_about(is_indirect boolean, is_masking boolean, subtype text, blocked_tags text[],
    sources text[]) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN is_indirect OR is_masking OR subtype IS NOT NULL OR cardinality(blocked_tags) > 0 THEN
               CASE WHEN is_indirect THEN '{"type":"INDIRECT","masking":' ELSE '{"type":"DIRECT","masking":' END
               || CASE WHEN is_masking THEN 'true,"subtype":' ELSE 'false,"subtype":' END
               || coalesce(to_json(subtype)::text, 'null')
               || '},"blocked_tags":' || to_json(blocked_tags)::text || ',"sources":' || to_json(sources)::text
           ELSE to_json(sources)::text END
$$;

-- An asset on the way as JSON, without its end: its tags and how far it is.
CREATE OR REPLACE FUNCTION node_opened(asset_id text, asset_name text, asset_type text, asset_owner text,
    data_source text, is_deleted boolean) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT '{"asset_id":' || to_json(asset_id)::text
        || ',"asset_name":' || coalesce(to_json(asset_name)::text, 'null')
        || ',"asset_type":' || coalesce(to_json(asset_type)::text, 'null')
        || ',"asset_owner":' || coalesce(to_json(asset_owner)::text, 'null')
        || ',"data_source":' || coalesce(to_json(data_source)::text, 'null')
        || CASE WHEN is_deleted THEN ',"is_deleted":true' ELSE ',"is_deleted":false' END
        || CASE WHEN asset_name IS NULL OR asset_type IS NULL THEN ',"is_known":false' ELSE ',"is_known":true' END
$$;
