"""The lake has every entry of the audit, once."""

from __future__ import annotations

import psycopg
from pyspark.sql import SparkSession

from kit.audit import KEY, entry
from lily.domain.audit import beginning, extend
from lily.pipeline.jobs.audit import AuditCopies
from lily.repositories.iceberg.catalog import AUDIT, CREATE_AUDIT
from lily.repositories.postgres.audit_chains import AuditChains


def test_every_entry_is_copied_once_whoever_copies(spark: SparkSession, database: str) -> None:
    for statement in CREATE_AUDIT:
        spark.sql(statement)
    entries = [entry(str(number), tenant) for number in range(20) for tenant in ("acme", "umbrella")]
    with psycopg.connect(database, autocommit=True) as connection:
        AuditChains(KEY).add(connection, entries[:30], "test", 0)
        copies = AuditCopies(spark, database)
        assert copies.copy() == 30
        assert copies.copy() == 0
        AuditChains(KEY).add(connection, entries[30:], "test", 1)
    assert AuditCopies(spark, database).copy() == 10, "a new process asks the lake how far it is"
    found = spark.sql(f"SELECT resource_id, seq, hash FROM {AUDIT} WHERE tenant_id = 'acme' ORDER BY seq")
    head, expected = beginning("acme"), []
    for each in entries[::2]:
        head = extend(head, each)
        expected.append((each.resource_id, head.seq, head.hash))
    assert [(row[0], row[1], bytes(row[2])) for row in found.collect()] == expected
