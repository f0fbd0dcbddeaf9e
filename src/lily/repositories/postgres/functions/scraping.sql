-- The two questions the scraper asks about all tenants. Each runs with the owner's rights and answers no more than
-- it says; only the gateway's role may call them. Replaced by every `lily migrate`.

-- Jobs that nobody runs although they may: those whose event was lost or found every worker busy, those that wait
-- for another attempt, and those whose worker died.
CREATE OR REPLACE FUNCTION scraping_jobs_due(patience interval, OUT tenant text, OUT job uuid)
RETURNS SETOF record LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
SELECT j.tenant_id, j.job_id
  FROM scraping_jobs j
 WHERE j.state IN ('queued', 'running')
   AND CASE j.state
       WHEN 'queued' THEN j.not_before <= clock_timestamp()
                          AND (j.attempts > 0 OR j.requested_at < clock_timestamp() - patience)
       ELSE j.leased_until < clock_timestamp() END
 ORDER BY j.requested_at
$$;

-- The connectors of these types that were not read for this long and have no job open.
CREATE OR REPLACE FUNCTION scraping_refreshes_due(types text[], age interval, OUT tenant text, OUT connector uuid)
RETURNS SETOF record LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
SELECT c.tenant_id, c.connector_id
  FROM connectors c
 WHERE c.type = ANY(types) AND NOT c.is_disabled
   AND c.created_at < clock_timestamp() - age
   AND NOT EXISTS (
       SELECT FROM scraping_jobs j
        WHERE j.tenant_id = c.tenant_id AND j.connector_id = c.connector_id
          AND (j.state IN ('queued', 'running') OR j.requested_at > clock_timestamp() - age))
$$;

DO $$
DECLARE
    signature text;
BEGIN
    FOREACH signature IN ARRAY ARRAY[
        'scraping_jobs_due(interval)', 'scraping_refreshes_due(text[], interval)'
    ] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', signature);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', signature, gateway_role());
    END LOOP;
END $$;
