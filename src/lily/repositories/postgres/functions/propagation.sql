-- How effective tags follow what is said (docs/lineage.md). Replaced by every `lily migrate`.
--
-- Called in this order by lily.repositories.postgres.propagator, in one transaction, over the work tables of
-- queries/propagation.sql: look at what changed, take away what has lost its support, put back and add what
-- has support. Every statement works on a whole set, once per hop. An OFFSET 0 has its subquery run once per row, by
-- key or by an array of keys: left to itself the planner, which cannot know the sizes of tables that grow within the
-- transaction, joins by reading all facts of a tag for each of them.

-- How each tag at hand spreads, asked once per run.
CREATE OR REPLACE FUNCTION learn_rules() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO rules
    SELECT t.tenant_id, t.tag, r.along_lineage, r.along_containment, r.along_indirect, r.stopped_by_masking, r.types,
           EXISTS (SELECT FROM tag_opt_outs AS o WHERE o.tenant_id = t.tenant_id AND o.tag = t.tag AND o.holds),
           r.along_containment
               OR EXISTS (SELECT FROM changed_rules AS c WHERE c.tenant_id = t.tenant_id AND c.tag = t.tag)
      FROM (SELECT tenant_id, tag FROM gained_facts WHERE round = 0
             UNION SELECT tenant_id, tag FROM lost_facts WHERE round = 0
            EXCEPT SELECT tenant_id, tag FROM rules) AS t
     CROSS JOIN LATERAL tag_rule(t.tenant_id, t.tag) AS r;
END $$;

-- Keeps `refined_pairs` true after changes of edges; pairs that changed make their edges worth a look.
CREATE OR REPLACE FUNCTION review_refinements() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM changed_edges) THEN
        RETURN;
    END IF;
    INSERT INTO reviewed_pairs
    SELECT DISTINCT ON (tenant_id, from_id, to_id) * FROM (
        -- Without columns there is nothing to look at; most edges are such.
        SELECT c.tenant_id, c.from_id, c.to_id, c.cause FROM changed_edges AS c
         WHERE c.relationship_type <> 'contains'
           AND (EXISTS (SELECT FROM edges AS e WHERE e.tenant_id = c.tenant_id AND e.from_id = c.from_id
                           AND e.relationship_type = 'contains' OFFSET 0)
                AND EXISTS (SELECT FROM edges AS e WHERE e.tenant_id = c.tenant_id AND e.from_id = c.to_id
                               AND e.relationship_type = 'contains' OFFSET 0)
                OR EXISTS (SELECT FROM refined_pairs AS r WHERE r.tenant_id = c.tenant_id AND r.from_id = c.from_id
                              AND r.to_id = c.to_id OFFSET 0))
        UNION ALL
        SELECT c.tenant_id, up.from_id, down.from_id, c.cause FROM changed_edges AS c
          JOIN edges AS up ON up.tenant_id = c.tenant_id AND up.to_id = c.from_id AND up.relationship_type = 'contains'
          JOIN edges AS down ON down.tenant_id = c.tenant_id AND down.to_id = c.to_id
               AND down.relationship_type = 'contains'
         WHERE c.relationship_type <> 'contains'
        UNION ALL
        SELECT c.tenant_id, c.from_id, down.from_id, c.cause FROM changed_edges AS c
          JOIN edges AS led ON led.tenant_id = c.tenant_id AND led.from_id = c.to_id
               AND led.relationship_type = ANY('{derived-from,used-in,depends-on,uses}')
          JOIN edges AS down ON down.tenant_id = c.tenant_id AND down.to_id = led.to_id
               AND down.relationship_type = 'contains'
         WHERE c.relationship_type = 'contains'
        UNION ALL
        SELECT c.tenant_id, up.from_id, c.from_id, c.cause FROM changed_edges AS c
          JOIN edges AS led ON led.tenant_id = c.tenant_id AND led.to_id = c.to_id
               AND led.relationship_type <> 'contains'
          JOIN edges AS up ON up.tenant_id = c.tenant_id AND up.to_id = led.from_id
               AND up.relationship_type = 'contains'
         WHERE c.relationship_type = 'contains'
    ) AS touched WHERE from_id <> to_id ORDER BY tenant_id, from_id, to_id, cause;

    WITH judged AS MATERIALIZED (
        SELECT p.*, EXISTS (SELECT FROM edges AS e WHERE e.tenant_id = p.tenant_id AND e.from_id = p.from_id
                               AND e.relationship_type = ANY('{derived-from,used-in,depends-on,uses}')
                               AND e.to_id = p.to_id)
                    AND is_refined_by_columns(p.tenant_id, p.from_id, p.to_id) AS is_refined,
               EXISTS (SELECT FROM refined_pairs AS r WHERE r.tenant_id = p.tenant_id AND r.from_id = p.from_id
                          AND r.to_id = p.to_id) AS was_refined
          FROM reviewed_pairs AS p
    ), gone AS (
        DELETE FROM refined_pairs AS r USING judged AS j
         WHERE NOT j.is_refined AND j.was_refined
           AND r.tenant_id = j.tenant_id AND r.from_id = j.from_id AND r.to_id = j.to_id
    ), come AS (
        INSERT INTO refined_pairs
        SELECT tenant_id, from_id, to_id FROM judged WHERE is_refined AND NOT was_refined
    )
    INSERT INTO changed_edges
    SELECT j.tenant_id, j.from_id, j.to_id, e.relationship_type, j.cause
      FROM judged AS j
      JOIN edges AS e ON e.tenant_id = j.tenant_id AND e.from_id = j.from_id AND e.to_id = j.to_id
           AND e.relationship_type = ANY('{derived-from,used-in,depends-on,uses}')
     WHERE j.is_refined <> j.was_refined;
END $$;

-- The asset where a fact's support begins: following `via_…` to an asserted fact.
CREATE OR REPLACE FUNCTION origin_of(tenant text, asset text, of_tag text, partial boolean) RETURNS text
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE climb AS (
        SELECT f.asset_id, f.is_asserted, f.via_from, f.via_is_partial FROM effective_tags AS f
         WHERE f.tenant_id = tenant AND f.asset_id = asset AND f.tag = of_tag AND f.is_partial = partial
        UNION ALL
        SELECT f.asset_id, f.is_asserted, f.via_from, f.via_is_partial FROM climb AS c
          JOIN effective_tags AS f ON f.tenant_id = tenant AND f.asset_id = c.via_from AND f.tag = of_tag
               AND f.is_partial = c.via_is_partial
         WHERE NOT c.is_asserted
    )
    SELECT asset_id FROM climb WHERE is_asserted
$$;

-- Whether the edge a fact rests on still carries its tag there in the same way.
CREATE OR REPLACE FUNCTION is_supported(f effective_tags) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM edges AS e
         CROSS JOIN LATERAL tag_rule(f.tenant_id, f.tag) AS r
         WHERE e.tenant_id = f.tenant_id AND e.from_id = f.via_from AND e.relationship_type = f.via_type
           AND e.to_id = f.asset_id
           AND carried_as_partial(e, f.tag, r.along_lineage, r.along_containment, r.along_indirect,
                   r.stopped_by_masking, f.via_is_partial, EXISTS (
                       SELECT FROM refined_pairs AS p WHERE p.tenant_id = f.tenant_id
                          AND p.from_id = e.from_id AND p.to_id = e.to_id)) = f.is_partial)
       AND NOT EXISTS (SELECT FROM tag_opt_outs AS o WHERE o.tenant_id = f.tenant_id AND o.asset_id = f.asset_id
                          AND o.tag = f.tag AND o.holds)
$$;

-- All facts of a tag: from the asserted ones along what rests on them.
CREATE OR REPLACE FUNCTION facts_of(tenant text, of_tag text) RETURNS SETOF effective_tags LANGUAGE sql STABLE AS $$
    WITH RECURSIVE resting AS (
        SELECT f.* FROM effective_tags AS f WHERE f.via_from IS NULL AND f.tag = of_tag AND f.tenant_id = tenant
        UNION ALL
        SELECT f.* FROM resting AS r
          JOIN effective_tags AS f ON f.via_from = r.asset_id AND f.tag = of_tag AND f.tenant_id = tenant
               AND f.via_is_partial = r.is_partial
    )
    SELECT * FROM resting
$$;

DROP FUNCTION IF EXISTS lost_rows(integer);
-- Where the facts lost at first are stored; of those lost later it was noted when they were found.
CREATE OR REPLACE FUNCTION lost_rows() RETURNS SETOF tid LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        SELECT f.row_id FROM lost_facts AS o CROSS JOIN LATERAL (
            SELECT f.ctid AS row_id FROM effective_tags AS f
             WHERE f.tenant_id = o.tenant_id AND f.asset_id = o.asset_id AND f.tag = o.tag
               AND f.is_partial = o.is_partial OFFSET 0) AS f
         WHERE o.round = 0;
END $$;

-- Why a tag came or went, as it is told: what is not known is left out. To make it of two arrays takes half the time.
CREATE OR REPLACE FUNCTION reason_of(cause uuid, via_from text, via_type text, origin text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN origin IS NULL THEN jsonb_strip_nulls(jsonb_object(
            '{cause,from,relationship_type}', ARRAY[cause::text, via_from, via_type]))
        WHEN via_from IS NULL THEN jsonb_object('{cause,origin}', ARRAY[cause::text, origin])
        ELSE jsonb_object('{cause,from,relationship_type,origin}', ARRAY[cause::text, via_from, via_type, origin]) END
$$;

-- The reasons for a change of an asset's tags: those found with it or, of a single tag, made of what was found.
CREATE OR REPLACE FUNCTION told_reasons(
    found jsonb, added text[], removed text[], cause uuid, via_from text, via_type text, origin text
) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(found, jsonb_build_object((added || removed)[1], reason_of(cause, via_from, via_type, origin)))
$$;

-- Assets that have neither facts nor edges, as most new ones: nothing of theirs can be lost, nothing comes or goes on,
-- so what is asserted on them is all that follows from their changes. They are done with here, and what is different
-- about them now is returned. An asset out of the way (`is_out_of_the_way`) is not done with here.
CREATE OR REPLACE FUNCTION settle_lone_assets() RETURNS TABLE (
    tenant_id text, asset_id text, cause uuid, added text[], removed text[], reasons jsonb, via_from text,
    via_type text, origin text
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY WITH lone AS (
        DELETE FROM changed_assets AS c
         WHERE NOT EXISTS (SELECT FROM effective_tags AS f
                            WHERE f.tenant_id = c.tenant_id AND f.asset_id = c.asset_id OFFSET 0)
           AND NOT EXISTS (SELECT FROM edges AS e WHERE e.tenant_id = c.tenant_id AND e.from_id = c.asset_id OFFSET 0)
           AND NOT EXISTS (SELECT FROM edges AS e WHERE e.to_id = c.asset_id AND e.tenant_id = c.tenant_id OFFSET 0)
           AND NOT EXISTS (SELECT FROM assets AS a WHERE a.tenant_id = c.tenant_id AND a.asset_id = c.asset_id
                              AND (a.is_deleted OR a.asset_name IS NULL OR a.asset_type IS NULL) OFFSET 0)
        RETURNING c.tenant_id, c.asset_id, c.cause
    ), rooted AS MATERIALIZED (
        SELECT l.*, ARRAY(SELECT t.tag FROM roots_on(l.tenant_id, l.asset_id) AS t (tag)) AS tags
          FROM lone AS l
    ), added AS (
        INSERT INTO effective_tags
        SELECT r.tenant_id, r.asset_id, unnest(r.tags), false, true, NULL, NULL, NULL, transaction_timestamp(), r.cause
          FROM rooted AS r
    )
    SELECT r.tenant_id, r.asset_id, r.cause, r.tags, '{}'::text[],
           (SELECT jsonb_object_agg(t.tag, reason_of(r.cause, NULL, NULL, r.asset_id))
              FROM (SELECT unnest(r.tags) AS tag) AS t), NULL::text, NULL::text, NULL::text
      FROM rooted AS r WHERE r.tags <> '{}';
END $$;

-- First look: what is asserted on the changed assets now, and which facts have lost what they rest on.
CREATE OR REPLACE FUNCTION find_losses() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO wanted_roots
    SELECT c.tenant_id, c.asset_id, a.tag, c.cause FROM changed_assets AS c
     CROSS JOIN LATERAL roots_on(c.tenant_id, c.asset_id) AS a (tag)
     -- Most are not out of the way, which is known in 2 µs; to call the function takes 17.
     WHERE NOT EXISTS (SELECT FROM assets AS o WHERE o.tenant_id = c.tenant_id AND o.asset_id = c.asset_id
                          AND (o.is_deleted OR o.asset_name IS NULL OR o.asset_type IS NULL) OFFSET 0)
        OR is_heard(c.tenant_id, c.asset_id);

    -- What is asserted now needs no edge any more.
    UPDATE effective_tags AS f SET is_asserted = true, via_from = NULL, via_type = NULL, via_is_partial = NULL
     WHERE f.ctid = ANY(ARRAY(
           SELECT f.row_id FROM wanted_roots AS w CROSS JOIN LATERAL (
               SELECT f.ctid AS row_id FROM effective_tags AS f
                WHERE f.tenant_id = w.tenant_id AND f.asset_id = w.asset_id AND f.tag = w.tag AND NOT f.is_partial
                  AND NOT f.is_asserted OFFSET 0) AS f));

    INSERT INTO lost_facts
    SELECT 0, f.tenant_id, f.asset_id, f.tag, f.is_partial, c.cause,
           CASE WHEN f.is_asserted THEN f.asset_id ELSE origin_of(f.tenant_id, f.asset_id, f.tag, f.is_partial) END
      FROM changed_assets AS c
     CROSS JOIN LATERAL (
           SELECT * FROM effective_tags AS f WHERE f.tenant_id = c.tenant_id AND f.asset_id = c.asset_id OFFSET 0) AS f
     WHERE CASE WHEN f.is_asserted THEN NOT EXISTS (
                         SELECT FROM wanted_roots AS w WHERE w.tenant_id = f.tenant_id
                            AND w.asset_id = f.asset_id AND w.tag = f.tag OFFSET 0)
                ELSE is_out_of_the_way(f.tenant_id, f.asset_id) OR NOT is_supported(f::effective_tags) END;

    INSERT INTO lost_facts
    SELECT 0, f.tenant_id, f.asset_id, f.tag, f.is_partial, c.cause,
           origin_of(f.tenant_id, f.via_from, f.tag, f.via_is_partial)
      FROM changed_edges AS c
     CROSS JOIN LATERAL (
           SELECT * FROM effective_tags AS f WHERE f.tenant_id = c.tenant_id AND f.asset_id = c.to_id OFFSET 0) AS f
     WHERE f.via_from = c.from_id AND f.via_type = c.relationship_type AND NOT is_supported(f::effective_tags)
    ON CONFLICT DO NOTHING;

    INSERT INTO lost_facts
    SELECT 0, f.tenant_id, f.asset_id, f.tag, f.is_partial, c.cause, NULL
      FROM changed_rules AS c
     CROSS JOIN LATERAL facts_of(c.tenant_id, c.tag) AS f
     WHERE f.via_from IS NOT NULL AND NOT is_supported(f)
    ON CONFLICT DO NOTHING;

    UPDATE effective_tags AS f SET is_asserted = false, via_from = NULL, via_type = NULL, via_is_partial = NULL
     WHERE f.ctid = ANY(ARRAY(SELECT lost_rows()));
END $$;

-- Gives lost facts of a round another fact to rest on where one is near: asserted, or resting on asserted
-- facts without a lost one in between. Only a shortcut (a fact that is not helped here is taken away and may
-- be derived again), so it looks no further than `most` facts. Returns how many it looked at.
CREATE OR REPLACE FUNCTION relink(this integer, most integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    looked integer;
BEGIN
    WITH RECURSIVE candidates AS MATERIALIZED (
        SELECT o.tenant_id, o.tag, o.asset_id AS lost, o.is_partial AS lost_is_partial, u.*
          FROM (SELECT * FROM lost_facts WHERE round = this LIMIT 1000) AS o
          JOIN rules AS r ON r.tenant_id = o.tenant_id AND r.tag = o.tag
         CROSS JOIN LATERAL (
               SELECT e.from_id AS via_from, e.relationship_type AS via_type, u.is_partial AS via_is_partial,
                      u.is_asserted, u.via_from AS next_from, u.via_is_partial AS next_is_partial
                 FROM edges AS e
                CROSS JOIN LATERAL (SELECT * FROM effective_tags AS u WHERE u.tenant_id = o.tenant_id
                       AND u.asset_id = e.from_id AND u.tag = o.tag OFFSET 0) AS u
                WHERE e.tenant_id = o.tenant_id AND e.to_id = o.asset_id AND e.relationship_type = ANY(r.types)
                  AND carried_as_partial(e, o.tag, r.along_lineage, r.along_containment, r.along_indirect,
                          r.stopped_by_masking, u.is_partial, r.along_containment AND EXISTS (
                              SELECT FROM refined_pairs AS p WHERE p.tenant_id = o.tenant_id
                                 AND p.from_id = e.from_id AND p.to_id = e.to_id)) = o.is_partial
                ORDER BY u.is_asserted DESC LIMIT 8
         ) AS u
         WHERE NOT is_out_of_the_way(o.tenant_id, o.asset_id)
           AND NOT EXISTS (SELECT FROM tag_opt_outs AS x WHERE x.tenant_id = o.tenant_id
                              AND x.asset_id = o.asset_id AND x.tag = o.tag AND x.holds OFFSET 0)
    ), climb AS (
        SELECT c.*, c.via_from AS at, c.via_is_partial AS at_is_partial FROM candidates AS c
        UNION ALL
        SELECT c.tenant_id, c.tag, c.lost, c.lost_is_partial, c.via_from, c.via_type, c.via_is_partial,
               f.is_asserted, f.via_from, f.via_is_partial, f.asset_id, f.is_partial
          FROM climb AS c
         CROSS JOIN LATERAL (
               SELECT * FROM effective_tags AS f WHERE f.tenant_id = c.tenant_id AND f.asset_id = c.next_from
                  AND f.tag = c.tag AND f.is_partial = c.next_is_partial OFFSET 0) AS f
         WHERE NOT c.is_asserted
           AND NOT EXISTS (SELECT FROM lost_facts AS o WHERE o.tenant_id = c.tenant_id AND o.asset_id = c.at
                              AND o.tag = c.tag AND o.is_partial = c.at_is_partial OFFSET 0)
    ), bounded AS MATERIALIZED (
        SELECT * FROM climb LIMIT most
    ), relinked AS (
        UPDATE effective_tags AS f SET via_from = g.via_from, via_type = g.via_type, via_is_partial = g.via_is_partial
          FROM (SELECT DISTINCT ON (b.tenant_id, b.lost, b.tag, b.lost_is_partial) b.*, f.row_id
                  FROM bounded AS b CROSS JOIN LATERAL (
                       SELECT f.ctid AS row_id FROM effective_tags AS f
                        WHERE f.tenant_id = b.tenant_id AND f.asset_id = b.lost AND f.tag = b.tag
                          AND f.is_partial = b.lost_is_partial OFFSET 0) AS f
                 WHERE b.is_asserted
                 ORDER BY b.tenant_id, b.lost, b.tag, b.lost_is_partial, b.via_from, b.via_type) AS g
         WHERE f.ctid = g.row_id
        RETURNING f.tenant_id, f.asset_id, f.tag, f.is_partial
    ), saved AS (
        DELETE FROM lost_facts AS o WHERE o.ctid = ANY(ARRAY(
            SELECT o.row_id FROM relinked AS r CROSS JOIN LATERAL (
                SELECT o.ctid AS row_id FROM lost_facts AS o
                 WHERE o.tenant_id = r.tenant_id AND o.asset_id = r.asset_id AND o.tag = r.tag
                   AND o.is_partial = r.is_partial OFFSET 0) AS o))
    )
    SELECT count(*) INTO looked FROM bounded;
    RETURN looked;
END $$;

-- Whether what a change of rules concerns is more than `most` facts.
CREATE OR REPLACE FUNCTION is_wide_rule(most bigint) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT count(*) > most FROM (
        SELECT FROM changed_rules AS c CROSS JOIN LATERAL facts_of(c.tenant_id, c.tag) AS f LIMIT most + 1) AS f);
END $$;

-- The tenant with most of the work at hand: what was done, and of what lies ahead a sample of `most` edges.
CREATE OR REPLACE FUNCTION busiest_tenant(most bigint) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT w.tenant_id FROM (
        SELECT tenant_id FROM lost_facts UNION ALL SELECT tenant_id FROM gained_facts WHERE is_new
        UNION ALL SELECT tenant_id FROM edges_ahead((SELECT max(round) FROM gained_facts), most)
        UNION ALL (SELECT c.tenant_id FROM changed_rules AS c
                    CROSS JOIN LATERAL facts_of(c.tenant_id, c.tag) AS f LIMIT most)) AS w
     GROUP BY w.tenant_id ORDER BY count(*) DESC LIMIT 1);
END $$;

-- Takes away facts that have lost their support, hop by hop from round `start`, until there are no more or some
-- 50,000 were taken. Returns the round to go on with, NULL when it has finished, -1 when there are more than `most`.
DROP FUNCTION IF EXISTS take_away();
CREATE OR REPLACE FUNCTION take_away(start integer, most bigint) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    this integer := start;
    taken bigint := 0;
    looked bigint := 0;
    these bigint;
BEGIN
    PERFORM learn_rules();
    LOOP
        -- Looking for help may not cost more than what it could save.
        IF looked < 20000 + 2 * taken THEN
            looked := looked + relink(this, (20000 + 2 * taken - looked)::integer);
        END IF;
        IF this = 0 THEN
            DELETE FROM effective_tags AS f WHERE f.ctid = ANY(ARRAY(SELECT lost_rows()));
        ELSE
            DELETE FROM effective_tags AS f
             WHERE f.ctid = ANY(ARRAY(SELECT o.row_id FROM lost_facts AS o WHERE o.round = this));
        END IF;
        GET DIAGNOSTICS these = ROW_COUNT;
        IF these = 0 THEN
            RETURN NULL;
        END IF;
        taken := taken + these;
        -- The next hop; what is asserted rests on nothing and is not found here.
        INSERT INTO lost_facts
        SELECT this + 1, f.tenant_id, f.asset_id, f.tag, f.is_partial, o.cause, o.origin, f.ctid FROM lost_facts AS o
         CROSS JOIN LATERAL (
               SELECT *, ctid FROM effective_tags AS f WHERE f.via_from = o.asset_id AND f.tag = o.tag
                  AND f.tenant_id = o.tenant_id AND f.via_is_partial = o.is_partial OFFSET 0) AS f
         WHERE o.round = this LIMIT most + 1;
        GET DIAGNOSTICS these = ROW_COUNT;
        this := this + 1;
        IF taken + these + 10 * this > most THEN
            RETURN -1;
        ELSIF taken >= 50000 THEN
            RETURN this;
        END IF;
    END LOOP;
END $$;

-- The facts from which everything that is now missing follows: newly asserted ones, and those that are one hop
-- behind something that changed (`only_to`: over edges to that asset only; such a fact is its own seed).
CREATE OR REPLACE FUNCTION find_gains() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH added AS (
        INSERT INTO effective_tags
        SELECT w.tenant_id, w.asset_id, w.tag, false, true, NULL, NULL, NULL, transaction_timestamp(), w.cause
          FROM wanted_roots AS w
        ON CONFLICT DO NOTHING
        RETURNING *
    )
    INSERT INTO gained_facts
    SELECT 0, tenant_id, asset_id, tag, is_partial, NULL, true, cause, asset_id, false, NULL, NULL FROM added;

    INSERT INTO gained_facts
    SELECT DISTINCT ON (f.tenant_id, f.asset_id, f.tag, f.is_partial, s.to_id)
           0, f.tenant_id, f.asset_id, f.tag, f.is_partial, s.to_id, false, s.cause, f.asset_id, f.is_partial, NULL, NULL
      FROM (
        SELECT c.tenant_id, c.from_id, c.to_id, c.cause FROM changed_edges AS c
        UNION ALL
        SELECT c.tenant_id, e.from_id, e.to_id, c.cause FROM changed_assets AS c
         CROSS JOIN LATERAL (
               SELECT * FROM edges AS e WHERE e.to_id = c.asset_id AND e.tenant_id = c.tenant_id OFFSET 0) AS e
         WHERE c.look_upstream
      ) AS s
     CROSS JOIN LATERAL (
           SELECT * FROM effective_tags AS f WHERE f.tenant_id = s.tenant_id AND f.asset_id = s.from_id OFFSET 0) AS f
     ORDER BY f.tenant_id, f.asset_id, f.tag, f.is_partial, s.to_id, s.cause;

    INSERT INTO gained_facts
    SELECT 0, f.tenant_id, f.asset_id, f.tag, f.is_partial, e.to_id, false, l.cause, f.asset_id, f.is_partial, NULL, NULL
      FROM lost_facts AS l
      -- What is asserted nowhere any more comes back nowhere.
      JOIN rules AS r ON r.tenant_id = l.tenant_id AND r.tag = l.tag AND EXISTS (
           SELECT FROM effective_tags AS f WHERE f.via_from IS NULL AND f.tag = r.tag AND f.tenant_id = r.tenant_id)
     CROSS JOIN LATERAL (
           SELECT * FROM edges AS e WHERE e.to_id = l.asset_id AND e.tenant_id = l.tenant_id
              AND e.relationship_type = ANY(r.types) OFFSET 0) AS e
     CROSS JOIN LATERAL (
           SELECT * FROM effective_tags AS f WHERE f.tenant_id = l.tenant_id AND f.asset_id = e.from_id
              AND f.tag = l.tag OFFSET 0) AS f;

    INSERT INTO gained_facts
    SELECT 0, f.tenant_id, f.asset_id, f.tag, f.is_partial, NULL, false, c.cause, f.asset_id, f.is_partial, NULL, NULL
      FROM changed_rules AS c
     CROSS JOIN LATERAL facts_of(c.tenant_id, c.tag) AS f;
    PERFORM learn_rules();
END $$;

-- Up to `most` edges that lead on from the facts gained in a round.
CREATE OR REPLACE FUNCTION edges_ahead(this integer, most bigint) RETURNS SETOF edges LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY SELECT e.* FROM gained_facts AS s
      JOIN rules AS r ON r.tenant_id = s.tenant_id AND r.tag = s.tag
     CROSS JOIN LATERAL (SELECT * FROM edges AS e WHERE e.tenant_id = s.tenant_id AND e.from_id = s.asset_id
                            AND e.relationship_type = ANY(r.types) OFFSET 0) AS e
     WHERE s.round = this AND s.only_to IS NULL LIMIT most;
END $$;

-- Adds what follows from the facts gained in round `start`, hop by hop, until nothing is new or some 50,000 facts
-- were added. Returns the round to go on with, NULL when it has finished, -1 when there is more ahead than `most`.
-- What a round reads is read by arrays of keys, 10,000 at a time, which takes half as long as key by key, and compared
-- by hashes. An array is quick in the condition of an index only; a bitmap may have to look at its rows again.
CREATE OR REPLACE FUNCTION add_onward(start integer, most bigint) RETURNS integer LANGUAGE plpgsql
SET enable_hashjoin = on SET enable_nestloop = off SET enable_bitmapscan = off AS $$
DECLARE
    this integer := start;
    added bigint := 0;
    these bigint;
BEGIN
    LOOP
        IF most IS NOT NULL
           AND (SELECT count(*) FROM edges_ahead(this, most + 1)) + added + 10 * this > most THEN
            RETURN -1;
        END IF;
        -- Where several edges lead to the same fact one is enough. Ids differ more than tenants, so they are
        -- compared first.
        WITH reached AS MATERIALIZED (
            SELECT DISTINCT ON (e.to_id, s.tag, c.as_partial, s.tenant_id)
                   s.tenant_id, e.to_id, s.tag, c.as_partial, e.from_id, e.relationship_type, s.is_partial,
                   s.cause, s.seed, s.seed_is_partial, r.has_opt_outs
              FROM (SELECT tenant_id, tag, is_partial, only_to, cause, seed, seed_is_partial, array_agg(asset_id) AS ids
                      FROM (SELECT *, row_number() OVER () / 10000 AS part FROM gained_facts WHERE round = this) AS g
                     GROUP BY tenant_id, tag, is_partial, only_to, cause, seed, seed_is_partial, part) AS s
              JOIN rules AS r ON r.tenant_id = s.tenant_id AND r.tag = s.tag
             CROSS JOIN LATERAL (
                   SELECT * FROM edges AS e WHERE e.tenant_id = s.tenant_id AND e.from_id = ANY(s.ids)
                      AND e.relationship_type = ANY(r.types) AND s.only_to IS NULL
                    UNION ALL
                   -- A fact that goes to one asset only is its own seed (find_gains): one edge of each type. Asked for
                   -- as the first from its key on: by `=` the planner may as well read all edges into that asset.
                   SELECT e.* FROM unnest(r.types) AS t (name) CROSS JOIN LATERAL (
                          SELECT * FROM edges AS e
                           WHERE (e.tenant_id, e.from_id, e.relationship_type, e.to_id)
                                 >= (s.tenant_id, s.seed, t.name, s.only_to)
                           ORDER BY e.tenant_id, e.from_id, e.relationship_type, e.to_id LIMIT 1) AS e
                    WHERE s.only_to IS NOT NULL AND (e.tenant_id, e.from_id, e.relationship_type, e.to_id)
                          = (s.tenant_id, s.seed, t.name, s.only_to)) AS e
             CROSS JOIN LATERAL (SELECT carried_as_partial(e::edges, s.tag, r.along_lineage, r.along_containment,
                   r.along_indirect, r.stopped_by_masking, s.is_partial, r.along_containment AND EXISTS (
                       SELECT FROM refined_pairs AS p WHERE p.tenant_id = s.tenant_id
                          AND p.from_id = e.from_id AND p.to_id = e.to_id)) AS as_partial) AS c
             WHERE c.as_partial IS NOT NULL
             ORDER BY e.to_id, s.tag, c.as_partial, s.tenant_id, e.from_id, e.relationship_type, s.is_partial, s.cause
        ), targets AS (
            SELECT tenant_id, tag, array_agg(to_id) AS ids
              FROM (SELECT *, row_number() OVER () / 10000 AS part FROM reached) AS n GROUP BY tenant_id, tag, part
        ), held AS (
            SELECT f.* FROM targets AS t CROSS JOIN LATERAL (
                   SELECT tenant_id, asset_id, tag, is_partial FROM effective_tags AS f
                    WHERE f.tenant_id = t.tenant_id AND f.asset_id = ANY(t.ids) AND f.tag = t.tag OFFSET 0) AS f
        ), out_of_the_way AS (
            SELECT a.* FROM targets AS t CROSS JOIN LATERAL (
                   SELECT tenant_id, asset_id FROM assets AS a
                    WHERE a.tenant_id = t.tenant_id AND a.asset_id = ANY(t.ids)
                      AND (a.is_deleted OR a.asset_name IS NULL OR a.asset_type IS NULL) OFFSET 0) AS a
        ), ahead AS MATERIALIZED (
            SELECT * FROM reached AS n
             WHERE NOT EXISTS (SELECT FROM held AS f WHERE f.asset_id = n.to_id AND f.tenant_id = n.tenant_id
                                  AND f.tag = n.tag AND f.is_partial = n.as_partial)
               AND NOT EXISTS (SELECT FROM out_of_the_way AS a
                                WHERE a.asset_id = n.to_id AND a.tenant_id = n.tenant_id)
               AND NOT (n.has_opt_outs AND EXISTS (
                        SELECT FROM tag_opt_outs AS o WHERE o.tenant_id = n.tenant_id AND o.asset_id = n.to_id
                           AND o.tag = n.tag AND o.holds OFFSET 0))
        ), added AS (
            INSERT INTO effective_tags
            SELECT tenant_id, to_id, tag, as_partial, false, from_id, relationship_type, is_partial,
                   transaction_timestamp(), cause
              FROM ahead
        )
        INSERT INTO gained_facts
        SELECT this + 1, tenant_id, to_id, tag, as_partial, NULL, true, cause, seed, seed_is_partial, from_id,
               relationship_type
          FROM ahead;
        GET DIAGNOSTICS these = ROW_COUNT;
        IF these = 0 THEN
            RETURN NULL;
        END IF;
        this := this + 1;
        added := added + these;
        IF added >= 50000 THEN
            RETURN this;
        END IF;
    END LOOP;
END $$;

-- What readers now see differently: one row per asset. A fact that went and came back is no change. All rows are
-- read, so joining by hashes is right here.
CREATE OR REPLACE FUNCTION seen_differently() RETURNS TABLE (
    tenant_id text, asset_id text, cause uuid, added text[], removed text[], reasons jsonb, via_from text,
    via_type text, origin text
) LANGUAGE plpgsql SET enable_hashjoin = on AS $$
#variable_conflict use_column
BEGIN
    -- Most begin where they are asserted. To ask for the origin of each, which is planned every time, took two
    -- thirds of PostgreSQL's time at 300 tagged assets a second.
    INSERT INTO seed_origins
    SELECT s.tenant_id, s.tag, s.seed, s.seed_is_partial,
           CASE WHEN NOT s.seed_is_partial AND EXISTS (
                         SELECT FROM wanted_roots AS w WHERE w.tenant_id = s.tenant_id AND w.asset_id = s.seed
                            AND w.tag = s.tag OFFSET 0) THEN s.seed
                ELSE origin_of(s.tenant_id, s.seed, s.tag, s.seed_is_partial) END
      FROM (SELECT DISTINCT g.tenant_id, g.tag, g.seed, g.seed_is_partial FROM gained_facts AS g WHERE g.is_new) AS s;

    -- One tag that only came or only went, which is most of the time: every asset is there once.
    IF (SELECT count(*) = 1 AND NOT bool_or(r.may_be_partial) FROM rules AS r)
       AND NOT (EXISTS (SELECT FROM lost_facts) AND EXISTS (SELECT FROM gained_facts AS g WHERE g.is_new)) THEN
        RETURN QUERY SELECT m.tenant_id, m.asset_id, m.cause,
               CASE WHEN m.came THEN ARRAY[m.tag] ELSE '{}' END, CASE WHEN m.came THEN '{}' ELSE ARRAY[m.tag] END,
               NULL::jsonb, m.via_from, m.via_type, m.origin
          FROM moved_facts AS m;
        RETURN;
    END IF;

    RETURN QUERY WITH judged AS (
        SELECT m.asset_id, m.tenant_id, m.tag, bool_and(m.came) AS is_there, (array_agg(m.cause))[1] AS cause,
               (array_agg(reason_of(m.cause, m.via_from, m.via_type, m.origin)))[1] AS reason
          FROM moved_facts AS m GROUP BY m.asset_id, m.tenant_id, m.tag
        HAVING bool_and(m.came) = bool_or(m.came)
    )
    SELECT j.tenant_id, j.asset_id, (array_agg(j.cause))[1],
           coalesce(array_agg(j.tag) FILTER (WHERE j.is_there), '{}'),
           coalesce(array_agg(j.tag) FILTER (WHERE NOT j.is_there), '{}'), jsonb_object_agg(j.tag, j.reason),
           NULL::text, NULL::text, NULL::text
      FROM judged AS j
     -- Beside a fact that came or went another may have stayed, if the tag can be there in both ways. What was
     -- added in this transaction bears its time.
     WHERE NOT ((SELECT bool_or(r.may_be_partial) FROM rules AS r) AND EXISTS (
               SELECT FROM effective_tags AS f WHERE f.tenant_id = j.tenant_id AND f.asset_id = j.asset_id
                  AND f.tag = j.tag AND f.since < transaction_timestamp() OFFSET 0))
     GROUP BY j.asset_id, j.tenant_id;
END $$;

DROP FUNCTION IF EXISTS record_tag_changes(boolean), record_tag_changes(boolean, boolean);
