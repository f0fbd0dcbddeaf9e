"""Turns a batch of records of `metadata-events` into staged statements, or into dead letters that say why.

The envelope is judged on Arrow columns. Payloads are read one by one: each kind says something else.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lily.pipeline.arrays import INSTANT, event_ids, instants, matches, where
from lily.pipeline.headers import Headers
from lily.pipeline.staging import ACTOR_MAX, RECORD, TENANT, beginning, headers_as_json, sound_traces
from lily.pipeline.statements import Unfit, read_statement

#: The columns of the staging table (queries/lineage_apply.sql).
SCHEMA = pa.schema(
    [
        *RECORD,
        ("event_time", INSTANT),
        ("received_at", INSTANT),
        ("actor", pa.string()),
        ("traceparent", pa.string()),
        ("kind", pa.string()),
        ("source", pa.string()),
        ("holds", pa.bool_()),
        ("from_id", pa.string()),
        ("to_id", pa.string()),
        ("relationship_type", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("body", pa.string()),
    ]
)
#: What makes an envelope unfit, in the order it is looked at.
_ENVELOPE = {
    "no_id": "the header ce_id is missing, not UTF-8 text or has a NUL character",
    "no_tenant": "the header ce_tenantid must be a tenant's name",
}
_PLACE = ("topic", "partition", "offset")
_ABOUT = ("key", "payload", "headers", "reason", "detail")
_SAID = ("kind", "source", "holds", "from_id", "to_id", "relationship_type", "tags", "body")

Fields = dict[str, Any]


def stage_statements(records: pa.Table) -> pa.Table:
    """Records as the Kafka source gives them in, rows of the staging table out."""
    return pa.Table.from_batches([_stage_batch(batch) for batch in records.to_batches()], SCHEMA)


def _stage_batch(records: pa.RecordBatch) -> pa.RecordBatch:
    headers = Headers(records["headers"])
    columns = _envelope(records, headers)
    rows = _read(records, headers.texts("ce_type").to_pylist(), columns["reason"].to_pylist())
    has_unfit = any("reason" in row for row in rows)
    for name in (*_ABOUT, *_SAID):
        kind = SCHEMA.field(name).type
        is_said = has_unfit or name in _SAID
        columns[name] = (
            pa.array([row.get(name) for row in rows], kind) if is_said else pa.nulls(len(rows), kind)
        )
    told = pa.array([row.get("event_time") for row in rows], INSTANT)
    columns["event_time"] = pc.coalesce(told, columns["received_at"])
    columns |= {name: records[name] for name in _PLACE}
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _envelope(records: pa.RecordBatch, headers: Headers) -> dict[str, pa.Array]:
    """Who says it and when; `reason` is the first rule an envelope breaks."""
    given, tenant, source, actor, time, trace = (
        _text(headers.texts(name))
        for name in ("ce_id", "ce_tenantid", "ce_source", "ce_actor", "ce_time", "traceparent")
    )
    has_id, has_tenant = matches(given, "."), matches(tenant, TENANT)
    reason = pc.if_else(has_id, pc.if_else(has_tenant, pa.scalar(None, pa.string()), "no_tenant"), "no_id")
    sound = pc.is_null(reason)
    return {
        "reason": reason,
        "event_id": where(sound, event_ids(given, source)),
        "tenant_id": where(sound, tenant),
        "received_at": pc.coalesce(instants(time), records["timestamp"].cast(INSTANT)),
        "actor": pc.utf8_slice_codeunits(pc.fill_null(actor, ""), 0, ACTOR_MAX),
        "traceparent": sound_traces(trace),
    }


def _text(texts: pa.Array) -> pa.Array:
    """What is no text, or has a NUL, counts as absent."""
    return where(pc.invert(matches(texts, r"\x00")), texts)


def _read(records: pa.RecordBatch, types: list[str | None], broken: list[str | None]) -> list[Fields]:
    """What each record says; of one that cannot be applied, what its dead letter holds."""
    values = records["value"].to_pylist()
    rows: list[Fields] = []
    for index, reason in enumerate(broken):
        try:
            if reason is not None:
                raise Unfit(reason, _ENVELOPE[reason])
            rows.append(read_statement(types[index], values[index]))
        except Unfit as unfit:
            rows.append(_dead_letter(records.slice(index, 1).to_pylist()[0], unfit))
    return rows


def _dead_letter(record: Fields, unfit: Unfit) -> Fields:
    value = record["value"]
    return {
        "reason": unfit.reason,
        "detail": f"{unfit.detail}; it begins: {beginning(value)}",
        "key": record["key"],
        "payload": value,
        "headers": headers_as_json(record["headers"]),
    }
