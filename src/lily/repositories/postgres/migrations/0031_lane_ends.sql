-- Up to where every change and every dead letter of a lane is committed. The executors of the leaf lane write at the
-- same time, each in transactions of its own: whoever reads in the order of `seq` goes no further than this (ADR 36).
CREATE TABLE lane_ends (
    lane     text   PRIMARY KEY,
    seq      bigint NOT NULL,
    dead_seq bigint NOT NULL
);
INSERT INTO lane_ends
SELECT l.lane, coalesce((SELECT max(c.seq) FROM changes AS c WHERE c.lane = l.lane), 0),
       coalesce((SELECT max(d.seq) FROM dead_letters AS d WHERE d.lane = l.lane), 0)
  FROM unnest('{structural,leaf,lineage}'::text[]) AS l (lane);

-- Executors no longer leave a batch for the driver to merge.
DROP TABLE leaf_staging;
