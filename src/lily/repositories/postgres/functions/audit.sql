-- Functions over event ids (lily.domain.event_ids), replaced by every `lily migrate`.

-- The id that stands for the whole batch of an event: that of its first member, whose last ten bits are 0.
-- Called by the audit's queries.
CREATE OR REPLACE FUNCTION batch_of(event_id uuid) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT encode(set_byte(set_byte(id, 15, 0), 14, get_byte(id, 14) & 252), 'hex')::uuid
      FROM (SELECT uuid_send(event_id) AS id) AS bytes
$$;

-- How many events the batch of an event has. Called by read_writes.
CREATE OR REPLACE FUNCTION batch_size(event_id uuid) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT 1 + ((get_byte(id, 13) & 15) << 6) + (get_byte(id, 14) >> 2) FROM (SELECT uuid_send(event_id) AS id) AS bytes
$$;
