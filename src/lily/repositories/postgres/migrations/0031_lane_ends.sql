-- Up to where every change of a lane is committed. The executors of the leaf lane write at the same time, each in
-- transactions of its own: whoever reads changes in the order of `seq` goes no further than this (ADR 36).
CREATE TABLE lane_ends (
    lane text   PRIMARY KEY,
    seq  bigint
);
INSERT INTO lane_ends
SELECT l.lane, (SELECT max(c.seq) FROM changes AS c WHERE c.lane = l.lane)
  FROM unnest('{structural,leaf}'::text[]) AS l (lane);

-- Executors no longer leave a batch for the driver to merge.
DROP TABLE leaf_staging;
