-- Functions over assets, replaced by every `lily migrate`.

-- The fields of a late event that nobody has spoken about since: those it still decides.
-- Called by apply_round for an event older than the newest one known.
CREATE OR REPLACE FUNCTION fields_still_open(
    mentioned smallint, newest smallint, clocks jsonb, event_time timestamptz, event_id uuid
) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT mentioned & ~newest & ~coalesce(
        (SELECT bit_or(field.key::smallint) FROM jsonb_each(clocks) AS field
          WHERE ((field.value ->> 0)::bigint, (field.value ->> 1)::uuid)
              > ((extract(epoch FROM event_time) * 1000000)::bigint, event_id)), 0::smallint)
$$;

-- `clocks` with every field of `fields` set to the given clock. Called by clocks_after.
CREATE OR REPLACE FUNCTION with_clock(clocks jsonb, fields smallint, at timestamptz, id uuid)
RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(clocks, '{}') || coalesce(
        (SELECT jsonb_object_agg((1 << bit)::text,
                    jsonb_build_array((extract(epoch FROM at) * 1000000)::bigint, id))
           FROM generate_series(0, 14) AS bit WHERE fields & (1 << bit) <> 0), '{}')
$$;

-- The clocks of the fields that are not the newest event's, after one more event. Called by apply_round,
-- and only when there are any.
CREATE OR REPLACE FUNCTION clocks_after(
    clocks jsonb, fields smallint, clock_time timestamptz, clock_id uuid,
    taken smallint, is_newest boolean, event_time timestamptz, event_id uuid
) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT nullif(CASE
        WHEN is_newest THEN
            with_clock(clocks, fields, clock_time, clock_id)
            - ARRAY(SELECT (1 << bit)::text FROM generate_series(0, 14) AS bit WHERE taken & (1 << bit) <> 0)
        ELSE with_clock(clocks, taken, event_time, event_id) END, '{}')
$$;

-- A text as JSON, also one that is not there. These two are called by what writes JSON.
CREATE OR REPLACE FUNCTION text_json(said text) RETURNS json LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(JSON_SCALAR(said), 'null')
$$;

-- A list of texts as JSON; one that is not there is empty.
CREATE OR REPLACE FUNCTION list_json(said text[]) RETURNS json LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(array_to_json(said), '[]')
$$;

-- An asset as every interface shows it, as JSON: a source's tags instead of a user's; both kept as assertions.
-- Takes a row of `changes`, the asset after that event; NULL when it was not visible. Written value by value: of a row,
-- or with every key and value named, PostgreSQL looks up the types again for each asset, a third of the time.
CREATE OR REPLACE FUNCTION asset_json(a changes) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN a.asset_name IS NOT NULL AND a.asset_type IS NOT NULL THEN format(
        '{"asset_id":%s,"asset_name":%s,"asset_type":%s,"asset_owner":%s,"description":%s,"data_source":%s,'
        '"external_id":%s,"tenant_id":%s,"tags":%s,"tag_assertions":{"source":%s,"user":%s},"business_terms":%s,'
        '"metadata":%s,"is_deleted":%s,"created_at":%s,"updated_at":%s,"version":%s}',
        text_json(a.asset_id), text_json(a.asset_name), text_json(a.asset_type), text_json(a.asset_owner),
        text_json(a.description), text_json(a.data_source), text_json(a.external_id), text_json(a.tenant_id),
        CASE WHEN a.source_tags <> '{}' THEN list_json(a.source_tags) ELSE list_json(a.user_tags) END,
        list_json(a.source_tags), list_json(a.user_tags), list_json(a.business_terms),
        coalesce(a.metadata, '{}'), CASE WHEN a.is_deleted THEN 'true' ELSE 'false' END,
        coalesce(JSON_SCALAR(a.created_at), 'null'), coalesce(JSON_SCALAR(a.updated_at), 'null'),
        coalesce(JSON_SCALAR(a.version), 'null')) END
$$;

-- The same for an asset as it is now.
CREATE OR REPLACE FUNCTION asset_json(a assets) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT asset_json(ROW(
        NULL, NULL, a.tenant_id, a.asset_id, NULL, NULL, NULL, NULL, a.version, NULL, NULL, NULL,
        a.asset_name, a.asset_type, a.asset_owner, a.description, a.data_source, a.external_id,
        a.business_terms, a.source_tags, a.user_tags, a.metadata, a.is_deleted, a.created_at, a.clock_time
    )::changes)
$$;

-- The names of the fields in a set of bits (lily.domain.assets.Field) as JSON, as the asset document spells them.
-- Called by change_json and by history.
CREATE OR REPLACE FUNCTION fields_json(fields smallint) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT '[' || concat_ws(',',
        CASE WHEN fields & 1 <> 0 THEN '"asset_name"' END, CASE WHEN fields & 2 <> 0 THEN '"asset_type"' END,
        CASE WHEN fields & 4 <> 0 THEN '"asset_owner"' END, CASE WHEN fields & 8 <> 0 THEN '"description"' END,
        CASE WHEN fields & 16 <> 0 THEN '"data_source"' END, CASE WHEN fields & 32 <> 0 THEN '"external_id"' END,
        CASE WHEN fields & 64 <> 0 THEN '"business_terms"' END, CASE WHEN fields & 384 <> 0 THEN '"tags"' END,
        CASE WHEN fields & 512 <> 0 THEN '"metadata"' END,
        CASE WHEN fields & 1024 <> 0 THEN '"is_deleted"' END) || ']'
$$;

-- A change as it is told on metadata-changes. Called by read_changes.
CREATE OR REPLACE FUNCTION change_json(c changes) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT format(
        '{"tenant_id":%s,"asset_id":%s,"version":%s,"event_id":"%s","event_time":%s,"applied_at":%s,"outcome":"%s",'
        '"actor":%s,"changed":%s,"lane":"%s","seq":%s,"asset":%s}',
        text_json(c.tenant_id), text_json(c.asset_id), c.version, c.event_id, JSON_SCALAR(c.event_time),
        JSON_SCALAR(c.applied_at), c.outcome, text_json(c.actor), fields_json(c.fields), c.lane, c.seq,
        coalesce(asset_json(c), 'null'))
$$;

-- A change of effective tags as it is told on metadata-changes. Called by read_tag_changes.
CREATE OR REPLACE FUNCTION tag_change_json(t tag_changes) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT format(
        '{"tenant_id":%s,"asset_id":%s,"event_id":"%s","event_time":%s,"applied_at":%s,"outcome":"retagged","actor":"",'
        '"changed":["effective_tags"],"lane":"lineage","seq":%s,"cause":"%s","added":%s,"removed":%s,"reasons":%s}',
        text_json(t.tenant_id), text_json(t.asset_id), t.event_id, JSON_SCALAR(t.applied_at), JSON_SCALAR(t.applied_at),
        t.seq, t.cause, list_json(t.added), list_json(t.removed), t.reasons)
$$;

-- The same with what is in force on it: its effective tags, and its owner, business terms and retention class, or those
-- that came along lineage. What the asset itself says of its owner and retention class counts alone.
-- Called for one asset and for lists.
CREATE OR REPLACE FUNCTION shown_document(a assets) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT left(asset_json(a), -1) || ', ' || substr(json_build_object(
           'effective_tags', coalesce(array_agg(e.tag) FILTER (WHERE e.tag !~ '^@(owner|term|retention):'), '{}'),
           'effective_owners', coalesce(own.owner, array_agg(substr(e.tag, 8)) FILTER (WHERE e.tag ~ '^@owner:'), '{}'),
           'effective_terms', ARRAY(
               SELECT unnest(a.business_terms)
                UNION SELECT unnest(array_agg(substr(e.tag, 7)) FILTER (WHERE e.tag ~ '^@term:')) ORDER BY 1),
           'effective_retention', coalesce(
               own.retention, array_agg(substr(e.tag, 12)) FILTER (WHERE e.tag ~ '^@retention:'), '{}'))::text, 2)
      FROM (SELECT CASE WHEN a.asset_owner <> '' THEN ARRAY[a.asset_owner] END AS owner,
                   CASE WHEN a.metadata ->> 'retention_class' <> '' THEN ARRAY[a.metadata ->> 'retention_class'] END
                       AS retention) AS own
      LEFT JOIN LATERAL (
           SELECT e.tag FROM effective_tags AS e WHERE e.tenant_id = a.tenant_id AND e.asset_id = a.asset_id
            UNION -- what its own events have just said is in force at once
           SELECT t.tag FROM unnest(a.source_tags || a.user_tags) AS t (tag)
            WHERE a.is_deleted IS NOT TRUE AND NOT EXISTS (
                  SELECT FROM tag_assertions AS s WHERE s.tenant_id = a.tenant_id AND s.asset_id = a.asset_id
                     AND s.tag = t.tag AND NOT s.holds)
            ORDER BY 1) AS e ON true
     GROUP BY own.owner, own.retention
$$;

-- The tags an asset has besides those in its row: asserted by lineage events, or come along lineage.
-- Called wherever access is decided.
CREATE OR REPLACE FUNCTION further_tags(tenant text, asset text) RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT ARRAY(SELECT e.tag FROM effective_tags AS e WHERE e.tenant_id = tenant AND e.asset_id = asset)
$$;

-- Whether an asset is contained in one of these, at any depth. Called by the condition of lists.
CREATE OR REPLACE FUNCTION is_contained(tenant text, asset text, containers text[])
RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH RECURSIVE above AS (
        SELECT e.from_id FROM edges AS e
         WHERE e.tenant_id = tenant AND e.to_id = asset AND e.relationship_type = 'contains'
         UNION
        SELECT e.from_id FROM above JOIN edges AS e
            ON e.tenant_id = tenant AND e.to_id = above.from_id AND e.relationship_type = 'contains')
    SELECT EXISTS (SELECT FROM above WHERE from_id = ANY(containers))
$$;
