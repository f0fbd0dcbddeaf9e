-- The few questions the gateway asks about many tenants at once. Each runs with the owner's rights and answers
-- no more than it says; only the gateway's role may call them. Replaced by every `lily migrate`.

-- For every waiting batch, how many of its events were applied and how many became dead letters; of a batch of
-- one also what came of it. With `follow`, an event counts when what follows from it is effective too.
-- Called by Visibility: one question for all who wait in a process.
DROP FUNCTION IF EXISTS count_settled(bigint[], text[], uuid[], uuid[]);
CREATE OR REPLACE FUNCTION count_settled(
    tickets bigint[], tenants text[], firsts uuid[], lasts uuid[], follow boolean[],
    OUT ticket bigint, OUT applied bigint, OUT dead bigint, OUT outcome text, OUT reason text, OUT detail text
) RETURNS SETOF record LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
WITH common AS MATERIALIZED (SELECT coalesce(jsonb_object_agg(lane, seq), '{}') AS upto FROM propagation_positions)
SELECT waiting.ticket, applied.events + said.events, dead.events, coalesce(applied.outcome, said.outcome),
       dead.reason, dead.detail
  FROM unnest(tickets, tenants, firsts, lasts, follow) AS waiting (ticket, tenant_id, first, last, follow)
 CROSS JOIN common
 CROSS JOIN LATERAL ( -- a tenant that is followed by itself may be behind the others
       SELECT common.upto || coalesce(jsonb_object_agg(a.lane, a.seq), '{}') AS upto
         FROM propagation_arrears AS a WHERE a.tenant_id = waiting.tenant_id) followed
 CROSS JOIN LATERAL (
       SELECT count(*) AS events, min(c.outcome) AS outcome
         FROM changes c
        WHERE c.tenant_id = waiting.tenant_id AND c.event_id BETWEEN waiting.first AND waiting.last
          AND (NOT waiting.follow OR c.seq <= coalesce((followed.upto ->> c.lane)::bigint, 0))) applied
 CROSS JOIN LATERAL (
       SELECT count(*) AS events, min(CASE WHEN l.holds THEN 'updated' ELSE 'deleted' END) AS outcome
         FROM lineage_events l
        WHERE l.tenant_id = waiting.tenant_id AND l.event_id BETWEEN waiting.first AND waiting.last
          AND (NOT waiting.follow OR l.seq <= coalesce((followed.upto ->> 'lineage')::bigint, 0))) said
 CROSS JOIN LATERAL (
       SELECT count(DISTINCT d.event_id) AS events, min(d.reason) AS reason, min(d.detail) AS detail
         FROM dead_letters d
        WHERE d.tenant_id = waiting.tenant_id
          AND d.event_id BETWEEN waiting.first::text AND waiting.last::text) dead
$$;

-- Forgets old idempotency keys. Called once an hour by every gateway.
CREATE OR REPLACE FUNCTION forget_idempotency_keys(hours integer)
RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DELETE FROM idempotency_keys WHERE created_at < clock_timestamp() - make_interval(hours => hours)
$$;

-- Forgets sessions, revocations and attempts that no longer matter. Called once an hour by every gateway.
CREATE OR REPLACE FUNCTION forget_identity()
RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DELETE FROM sessions WHERE expires_at < clock_timestamp() - interval '1 day';
DELETE FROM revoked_tokens WHERE expires_at < clock_timestamp() - interval '1 hour';
DELETE FROM login_attempts WHERE started_at < clock_timestamp() - interval '1 hour';
$$;

DO $$
DECLARE
    signature text;
BEGIN
    FOREACH signature IN ARRAY ARRAY[
        'count_settled(bigint[], text[], uuid[], uuid[], boolean[])', 'forget_idempotency_keys(integer)', 'forget_identity()'
    ] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', signature);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', signature, gateway_role());
    END LOOP;
END $$;
