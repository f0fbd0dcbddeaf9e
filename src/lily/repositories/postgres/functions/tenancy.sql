-- What a process of the gateway tells and is told every second. Replaced by every `lily migrate`.

-- Notes that the worker is alive, for which tenants it has stopped writing, and how much of their quotas its
-- tenants ask for; answers the share of each tenant's quotas this worker may grant. Shares follow demand, and a
-- fifth is kept for workers that a tenant has not asked yet. Called by TenantRoutes with the owner's rights.
CREATE OR REPLACE FUNCTION gateway_beat(
    me uuid, paused_tenants text[], tenants text[], asked_requests real[], asked_events real[],
    OUT tenant text, OUT requests_share real, OUT events_share real
) RETURNS SETOF record LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    workers real;
BEGIN
    INSERT INTO gateway_workers VALUES (me, paused_tenants)
    ON CONFLICT (worker) DO UPDATE SET paused = excluded.paused, beat_at = clock_timestamp();
    DELETE FROM gateway_workers WHERE beat_at < clock_timestamp() - interval '1 minute';
    DELETE FROM quota_demands WHERE worker = me OR beat_at < clock_timestamp() - interval '1 minute';
    INSERT INTO quota_demands
    SELECT t, me, r, e, clock_timestamp() FROM unnest(tenants, asked_requests, asked_events) AS asked (t, r, e);
    SELECT count(*) INTO workers FROM gateway_workers WHERE beat_at > clock_timestamp() - interval '5 seconds';
    RETURN QUERY
    SELECT mine.tenant_id,
           (0.8 * coalesce(mine.requests / nullif(total.requests, 0), 1 / workers) + 0.2 / workers)::real,
           (0.8 * coalesce(mine.events / nullif(total.events, 0), 1 / workers) + 0.2 / workers)::real
      FROM quota_demands AS mine
     CROSS JOIN LATERAL (
           SELECT sum(d.requests) AS requests, sum(d.events) AS events FROM quota_demands AS d
            WHERE d.tenant_id = mine.tenant_id AND d.beat_at > clock_timestamp() - interval '3 seconds') AS total
     WHERE mine.worker = me
     UNION ALL SELECT '', (1 / workers)::real, (1 / workers)::real;
END $$;

DO $$ BEGIN
    REVOKE ALL ON FUNCTION gateway_beat(uuid, text[], text[], real[], real[]) FROM PUBLIC;
    EXECUTE format(
        'GRANT EXECUTE ON FUNCTION gateway_beat(uuid, text[], text[], real[], real[]) TO %I', gateway_role());
END $$;
