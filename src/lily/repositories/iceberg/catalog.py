"""Where the lake's tables are: a JDBC catalog in PostgreSQL that Spark and pyiceberg both read."""

from __future__ import annotations

from lily.repositories.postgres.jdbc import jdbc_login, jdbc_url
from lily.settings import Settings

CATALOG = "lake"
#: The audit of all cells is one table.
_SHARED = "lily"
AUDIT = f"{CATALOG}.{_SHARED}.audit"


def events_table(namespace: str) -> str:
    """Every record as received, of the cell with this namespace."""
    return f"{CATALOG}.{namespace}.events"


def history_table(namespace: str) -> str:
    """Every version of every asset."""
    return f"{CATALOG}.{namespace}.history"


_EVENTS = """
    topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, tenant_id STRING, event_id STRING,
    event_type STRING, key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>
"""
_HISTORY = """
    tenant_id STRING, asset_id STRING, version INT, event_id STRING, event_time TIMESTAMP,
    applied_at TIMESTAMP, outcome STRING, actor STRING, changed ARRAY<STRING>, lane STRING, seq BIGINT,
    asset STRING
"""
_CREATE = "CREATE TABLE IF NOT EXISTS {} ({}) USING iceberg PARTITIONED BY (days({}))"


def create_tables(namespace: str) -> tuple[str, ...]:
    """What makes the tables of a cell."""
    return (
        f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{namespace}",
        _CREATE.format(events_table(namespace), _EVENTS, "timestamp"),
        _CREATE.format(history_table(namespace), _HISTORY, "applied_at"),
    )


_CREATE_NAMESPACE = f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{_SHARED}"
_CREATE_AUDIT = f"""
CREATE TABLE IF NOT EXISTS {AUDIT} (
    tenant_id STRING, seq BIGINT, at TIMESTAMP, actor STRING, acting_as STRING, address STRING,
    action STRING, resource_kind STRING, resource_id STRING, allowed BOOLEAN, reason STRING,
    trace_id STRING, event_id STRING, events INT, hash BINARY
) USING iceberg PARTITIONED BY (days(at))
"""
CREATE_AUDIT = (_CREATE_NAMESPACE, _CREATE_AUDIT)


def catalog_config(settings: Settings) -> dict[str, str]:
    """Spark's settings for the catalog; `LILY_LAKE_CATALOG_URI` replaces the JDBC catalog by a REST one."""
    prefix = f"spark.sql.catalog.{CATALOG}"
    config = {prefix: "org.apache.iceberg.spark.SparkCatalog", f"{prefix}.warehouse": settings.lake.warehouse}
    rest = settings.lake.catalog_uri.get_secret_value()
    if rest:
        return config | {f"{prefix}.type": "rest", f"{prefix}.uri": rest}
    database = settings.database.url.get_secret_value()
    user, password = jdbc_login(database)
    return config | {
        f"{prefix}.type": "jdbc",
        f"{prefix}.uri": jdbc_url(database),
        f"{prefix}.jdbc.user": user,
        f"{prefix}.jdbc.password": password,
        f"{prefix}.jdbc.schema-version": "V1",
    }
