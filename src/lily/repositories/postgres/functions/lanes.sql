-- What readers of changes ask of a lane. Replaced by every `lily migrate`.

-- Up to here every change of the lane is committed, so who reads in the order of `seq` misses none. Called by all
-- who follow changes.
CREATE OR REPLACE FUNCTION lane_end(of_lane text) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce((SELECT seq FROM lane_ends WHERE lane = of_lane), 0)
$$;

-- The same for dead letters. Called by the outbox reader.
CREATE OR REPLACE FUNCTION lane_dead_end(of_lane text) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce((SELECT dead_seq FROM lane_ends WHERE lane = of_lane), 0)
$$;
