-- Starting over.

-- name: forget_positions
-- Called by `lily replay`: the log will be read from the beginning; events already counted change nothing.
DELETE FROM stream_positions WHERE query = ANY(%(queries)s)

-- name: forget_state
-- Called by `lily replay --reset`: everything derived from events goes.
TRUNCATE assets, changes, dead_letters, lineage_events, edge_assertions, edges, refined_pairs,
    tag_assertions, tag_opt_outs, tag_definitions, effective_tags, tag_changes, propagation_positions,
    incidents, incident_names, incident_changes, propagation_arrears, untold_tag_changes
