-- Jobs that read a connector's source, and what was last sent of it.

-- name: enqueue_job
-- ScrapingJobs.enqueue: a job that is known already stays as it is.
INSERT INTO scraping_jobs (tenant_id, job_id, connector_id, mode, requested_by, requested_at)
SELECT %(tenant_id)s, %(job_id)s::uuid, c.connector_id, %(mode)s, %(requested_by)s, %(requested_at)s
  FROM connectors c
 WHERE c.tenant_id = %(tenant_id)s AND c.connector_id = %(connector_id)s::uuid
ON CONFLICT DO NOTHING
RETURNING job_id

-- name: find_waiting
-- ScrapingJobs.waiting: an order that has not been begun yet.
SELECT job_id::text FROM scraping_jobs
 WHERE tenant_id = %(tenant_id)s AND connector_id = %(connector_id)s::uuid AND mode = %(mode)s
   AND state = 'queued' AND attempts = 0
 ORDER BY requested_at LIMIT 1

-- name: claim_job
-- ScrapingJobs.claim: one worker gets a job, and none while another job of its connector runs.
UPDATE scraping_jobs j
   SET state = 'running', worker = %(worker)s, attempts = j.attempts + 1,
       leased_until = clock_timestamp() + make_interval(secs => %(lease)s),
       started_at = clock_timestamp(), finished_at = NULL
 WHERE j.tenant_id = %(tenant_id)s AND j.job_id = %(job_id)s::uuid
   AND (j.state = 'queued' AND j.not_before <= clock_timestamp()
        OR j.state = 'running' AND j.leased_until < clock_timestamp())
   AND NOT EXISTS (
       SELECT FROM scraping_jobs other
        WHERE other.tenant_id = j.tenant_id AND other.connector_id = j.connector_id
          AND other.state = 'running' AND other.job_id <> j.job_id)
RETURNING j.tenant_id, j.job_id::text, j.connector_id::text, j.mode, j.requested_by, j.requested_at, j.attempts

-- name: renew_job
-- ScrapingJobs.renew: nothing when the job is another worker's by now.
UPDATE scraping_jobs
   SET leased_until = clock_timestamp() + make_interval(secs => %(lease)s), counts = %(counts)s
 WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s::uuid AND worker = %(worker)s AND state = 'running'
RETURNING job_id

-- name: finish_job
-- ScrapingJobs.finish: succeeded, failed, or queued again for another attempt.
UPDATE scraping_jobs
   SET state = %(state)s, counts = %(counts)s, notes = %(notes)s, error = %(error)s, worker = NULL,
       leased_until = NULL, not_before = clock_timestamp() + make_interval(secs => %(pause)s),
       finished_at = clock_timestamp()
 WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s::uuid AND worker = %(worker)s AND state = 'running'
RETURNING job_id

-- name: list_jobs
-- ScrapingJobs.find and .list: newest first.
SELECT job_id::text, connector_id::text, mode, state, requested_by, requested_at, attempts,
       CASE WHEN state = 'queued' AND attempts > 0 THEN not_before END, started_at, finished_at, counts, notes,
       error
  FROM scraping_jobs
 WHERE tenant_id = %(tenant_id)s AND connector_id = %(connector_id)s::uuid
   AND (%(job_id)s::uuid IS NULL OR job_id = %(job_id)s::uuid)
 ORDER BY requested_at DESC, job_id
 LIMIT %(limit)s

-- name: list_due
-- ScrapingJobs.due
SELECT tenant, job::text FROM scraping_jobs_due(make_interval(secs => %(patience)s))

-- name: list_refreshes
-- ScrapingJobs.refreshes
SELECT tenant, connector::text
  FROM scraping_refreshes_due(%(types)s::text[], make_interval(secs => %(age)s))

-- name: forget_jobs
-- ScrapingJobs.finish: only the last hundred of a connector are kept.
DELETE FROM scraping_jobs j
 WHERE j.tenant_id = %(tenant_id)s AND j.state IN ('succeeded', 'failed')
   AND j.job_id IN (SELECT old.job_id FROM scraping_jobs old
                     WHERE old.tenant_id = %(tenant_id)s AND old.connector_id = %(connector_id)s::uuid
                     ORDER BY old.requested_at DESC OFFSET 100)

-- name: load_items
-- ScrapedItems.load: everything that was last sent of a connector's source.
SELECT is_lineage, external_id, asset_type, fingerprint, edges
  FROM scraped_items
 WHERE tenant_id = %(tenant_id)s AND connector_id = %(connector_id)s::uuid

-- name: keep_items
-- ScrapedItems.keep
INSERT INTO scraped_items (tenant_id, connector_id, is_lineage, external_id, asset_type, fingerprint, edges)
SELECT %(tenant_id)s, %(connector_id)s::uuid, item.*
  FROM unnest(%(lineage)s::boolean[], %(ids)s::text[], %(types)s::text[], %(prints)s::bytea[],
              %(edges)s::jsonb[]) AS item
ON CONFLICT (tenant_id, connector_id, is_lineage, external_id) DO UPDATE
   SET asset_type = excluded.asset_type, fingerprint = excluded.fingerprint, edges = excluded.edges

-- name: forget_items
-- ScrapedItems.forget
DELETE FROM scraped_items i
 USING unnest(%(lineage)s::boolean[], %(ids)s::text[]) AS gone (is_lineage, external_id)
 WHERE i.tenant_id = %(tenant_id)s AND i.connector_id = %(connector_id)s::uuid
   AND i.is_lineage = gone.is_lineage AND i.external_id = gone.external_id
