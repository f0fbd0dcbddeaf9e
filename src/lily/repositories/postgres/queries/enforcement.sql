-- What Lily did in the databases it protects, and what it was asked to do.

-- name: insert_plan
-- EnforcementLedger.begin.
INSERT INTO enforcement_plans (tenant_id, plan_id, connector_id, reason)
VALUES (%(tenant_id)s, %(plan_id)s, %(connector_id)s, %(reason)s)

-- name: insert_statements
-- EnforcementLedger.begin: all statements of a plan at once.
INSERT INTO enforcement_statements (tenant_id, plan_id, place, relation, statement, is_undo, is_meanwhile)
SELECT %(tenant_id)s, %(plan_id)s, place, relation, statement, is_undo, is_meanwhile
  FROM unnest(%(relations)s::text[], %(statements)s::text[], %(undoes)s::boolean[], %(meanwhiles)s::boolean[])
       WITH ORDINALITY AS said (relation, statement, is_undo, is_meanwhile, place)

-- name: settle_plan
-- EnforcementLedger.settle.
UPDATE enforcement_plans SET state = %(state)s, detail = %(detail)s::jsonb, settled_at = clock_timestamp()
 WHERE tenant_id = %(tenant_id)s AND plan_id = %(plan_id)s

-- name: settle_statements
-- EnforcementLedger.settle: which statements were carried out; once said is said.
UPDATE enforcement_statements
   SET is_said = coalesce(is_said, false) OR NOT is_undo AND relation = ANY (
                 CASE WHEN is_meanwhile THEN %(denied)s::text[] ELSE %(done)s::text[] END)
 WHERE tenant_id = %(tenant_id)s AND plan_id = %(plan_id)s

-- name: put_relations
-- EnforcementLedger.settle: how relations have become; `since` is that of the last change.
INSERT INTO enforcement_relations (tenant_id, connector_id, relation, state, columns, detail)
SELECT %(tenant_id)s, %(connector_id)s, relation, state, columns::jsonb, detail
  FROM unnest(%(relations)s::text[], %(states)s::text[], %(columns)s::text[], %(details)s::text[])
       AS become (relation, state, columns, detail)
ON CONFLICT (tenant_id, connector_id, relation) DO UPDATE SET state = excluded.state,
    columns = excluded.columns, detail = excluded.detail, since = excluded.since

-- name: forget_relations
-- EnforcementLedger.settle: those that are not protected any more.
DELETE FROM enforcement_relations
 WHERE tenant_id = %(tenant_id)s AND connector_id = %(connector_id)s AND relation = ANY (%(relations)s::text[])

-- name: put_target
-- EnforcementLedger.tell.
INSERT INTO enforcement_targets (tenant_id, connector_id, state, detail)
VALUES (%(tenant_id)s, %(connector_id)s, %(state)s, %(detail)s::jsonb)
ON CONFLICT (tenant_id, connector_id) DO UPDATE
   SET state = excluded.state, detail = excluded.detail, checked_at = clock_timestamp()

-- name: list_targets
-- EnforcementLedger.targets.
SELECT t.connector_id::text, t.state, t.detail, t.checked_at
  FROM enforcement_targets t
 WHERE t.tenant_id = %(tenant_id)s
   AND (%(connector_id)s::uuid IS NULL OR t.connector_id = %(connector_id)s::uuid)
 ORDER BY t.connector_id

-- name: list_relations
-- EnforcementLedger.relations.
SELECT relation, state, columns, detail, since FROM enforcement_relations
 WHERE tenant_id = %(tenant_id)s AND connector_id = %(connector_id)s ORDER BY relation

-- name: list_plans
-- EnforcementLedger.plans: the newest first.
SELECT plan_id::text, reason, state, detail, planned_at, settled_at FROM enforcement_plans
 WHERE tenant_id = %(tenant_id)s AND connector_id = %(connector_id)s ORDER BY planned_at DESC LIMIT %(limit)s

-- name: list_statements
-- EnforcementLedger.statements.
SELECT relation, statement, is_undo, is_meanwhile, is_said FROM enforcement_statements
 WHERE tenant_id = %(tenant_id)s AND plan_id = %(plan_id)s ORDER BY place

-- name: insert_request
-- EnforcementLedger.ask; announces itself.
INSERT INTO enforcement_requests (tenant_id, request_id, connector_id, actor)
VALUES (%(tenant_id)s, %(request_id)s, %(connector_id)s, %(actor)s)

-- name: list_requests
-- EnforcementLedger.asked: what is not done yet.
SELECT request_id::text FROM enforcement_requests
 WHERE tenant_id = %(tenant_id)s AND connector_id = %(connector_id)s AND done_at IS NULL

-- name: settle_requests
-- EnforcementLedger.answer.
UPDATE enforcement_requests SET done_at = clock_timestamp(), outcome = %(outcome)s::jsonb
 WHERE tenant_id = %(tenant_id)s AND request_id = ANY (%(requests)s::uuid[])

-- name: find_request
-- EnforcementLedger.answered.
SELECT outcome FROM enforcement_requests
 WHERE tenant_id = %(tenant_id)s AND request_id = %(request_id)s AND done_at IS NOT NULL

-- name: known_places
-- KnownPlaces.of: for databases in which nobody reads what is not classified. Tags that came by lineage or from what
-- contains an asset are nobody's decision about it.
SELECT a.external_id, a.asset_type = 'column',
       EXISTS (SELECT FROM effective_tags t
                WHERE t.tenant_id = a.tenant_id AND t.asset_id = a.asset_id AND t.is_asserted)
  FROM assets a
 WHERE a.tenant_id = %(tenant_id)s AND a.asset_type IN ('table', 'view', 'column') AND a.external_id IS NOT NULL
   AND NOT coalesce(a.is_deleted, false)
   AND coalesce(a.metadata ->> 'connector_id' = %(connector_id)s::text, a.data_source = %(source)s::text)
