-- Jobs that read a connector's source. A job comes over `scraping-job-events`; this is what became of it.
CREATE TABLE scraping_jobs (
    tenant_id    text        NOT NULL,
    job_id       uuid        NOT NULL,
    connector_id uuid        NOT NULL,
    mode         text        NOT NULL CHECK (mode IN ('full', 'incremental')),
    state        text        NOT NULL DEFAULT 'queued'
                             CHECK (state IN ('queued', 'running', 'succeeded', 'failed')),
    requested_by text        NOT NULL,
    requested_at timestamptz NOT NULL,
    attempts     integer     NOT NULL DEFAULT 0,
    not_before   timestamptz NOT NULL DEFAULT clock_timestamp(),  -- of the next attempt
    worker       uuid,
    leased_until timestamptz,  -- a running job whose lease is over may be taken by another worker
    started_at   timestamptz,
    finished_at  timestamptz,
    counts       jsonb       NOT NULL DEFAULT '{}',
    notes        jsonb       NOT NULL DEFAULT '[]',
    error        text,
    PRIMARY KEY (tenant_id, job_id),
    FOREIGN KEY (tenant_id, connector_id) REFERENCES connectors ON DELETE CASCADE
);
CREATE INDEX scraping_jobs_of_connector ON scraping_jobs (tenant_id, connector_id, requested_at DESC);
CREATE UNIQUE INDEX scraping_jobs_one_at_a_time ON scraping_jobs (tenant_id, connector_id)
    WHERE state = 'running';
CREATE INDEX scraping_jobs_open ON scraping_jobs (requested_at) WHERE state IN ('queued', 'running');

-- What was last sent of a connector's source: of an asset a fingerprint, of lineage also its edges. So that only
-- what is different is sent again, and what is no longer there is known.
CREATE TABLE scraped_items (
    tenant_id    text    NOT NULL,
    connector_id uuid    NOT NULL,
    is_lineage   boolean NOT NULL,
    external_id  text    NOT NULL,
    asset_type   text    NOT NULL DEFAULT '',
    fingerprint  bytea   NOT NULL,
    edges        jsonb,
    PRIMARY KEY (tenant_id, connector_id, is_lineage, external_id),
    FOREIGN KEY (tenant_id, connector_id) REFERENCES connectors ON DELETE CASCADE
);

SELECT secure_table('scraping_jobs'), secure_table('scraped_items');
