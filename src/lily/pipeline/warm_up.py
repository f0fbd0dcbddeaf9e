"""Runs the pipeline on made-up events and rolls them back, so that the first real event meets warm code.

Without it the first batches take 4 to 10 s until the JVM has compiled what they use.
"""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from pyspark.sql import DataFrame, SparkSession

from lily.domain.event_ids import new_batch_id
from lily.log.envelope import Envelope, EventType
from lily.pipeline.lanes import LaneQuery, decode, describe
from lily.pipeline.summaries import summarise

_TENANT = "lily-warm-up"
_SIZES = (10, 1000, 100, 2000, 1, 4000, 10, 4000)
_RECORD = """
    key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP,
    headers ARRAY<STRUCT<key: STRING, value: BINARY>>
"""


def warm_up(session: SparkSession, query: LaneQuery) -> None:
    """Decode and apply batches of several sizes as the structural lane does; nothing of it stays."""
    for size in _SIZES:
        staged = _records(session, size).transform(decode).toArrow()
        batch = describe(query, 0, summarise(staged))
        query.applier.apply_table(batch, staged, keep=False)


def _records(session: SparkSession, size: int) -> DataFrame:
    now = datetime.now(UTC)
    first = new_batch_id(int(now.timestamp() * 1000)).int
    rows = []
    for number in range(size):
        envelope = _envelope(UUID(int=first + number), number, now)
        headers = [(key, bytearray(value)) for key, value in envelope.headers()]
        rows.append((bytearray(envelope.key), bytearray(envelope.data), "warm-up", number % 2, number, now, headers))
    return session.createDataFrame(rows, _RECORD)


def _envelope(event_id: UUID, number: int, now: datetime) -> Envelope:
    data = (
        f'{{"asset_id":"{number}","asset_name":"orders","asset_type":"table","data_source":"warm-up",'
        f'"external_id":"{number}","tags":["PII"],"business_terms":["Billing"],"metadata":{{"rows":{number}}},'
        f'"event_time":"{now.isoformat()}"}}'
    )
    return Envelope(
        event_id, EventType.ASSET_ASSERTED, "lily/warm-up", _TENANT, str(number), now, data.encode(), "warm-up"
    )
