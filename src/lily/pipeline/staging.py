"""Turns records into staged rows, or into dead letters with the reason why they cannot be applied.

Runs on Arrow columns: on the driver for the structural lane, on the executors for the leaf lane.
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lily.domain.assets import ALL_FIELDS, Field, TagOrigin
from lily.domain.tenants import TENANT_NAME
from lily.log.envelope import MAX_EVENT_BYTES, EventType
from lily.pipeline.arrays import (
    INSTANT,
    all_octets,
    controls,
    event_ids,
    instants,
    is_any,
    is_true,
    matches,
    matches_any,
    selected,
    where,
)
from lily.pipeline.headers import Headers
from lily.pipeline.odd_payloads import BAD_METADATA, MALFORMED, NOT_UTF8
from lily.pipeline.payloads import Payloads, read_payloads

_TEXTS = pa.list_(pa.string())
#: What every staging table begins with: where a record was, why it is refused if it is, and whose it is.
RECORD = (
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("key", pa.binary()),
    ("payload", pa.binary()),
    ("headers", pa.string()),
    ("reason", pa.string()),
    ("detail", pa.string()),
    ("event_id", pa.string()),
    ("tenant_id", pa.string()),
)
#: The staging table's columns (queries/apply.sql).
SCHEMA = pa.schema(
    [
        *RECORD,
        ("asset_id", pa.string()),
        ("event_time", INSTANT),
        ("received_at", INSTANT),
        ("created_at", INSTANT),
        ("actor", pa.string()),
        ("traceparent", pa.string()),
        ("expected_version", pa.int32()),
        ("fields", pa.int16()),
        ("asset_name", pa.string()),
        ("asset_type", pa.string()),
        ("asset_owner", pa.string()),
        ("description", pa.string()),
        ("data_source", pa.string()),
        ("external_id", pa.string()),
        ("business_terms", _TEXTS),
        ("source_tags", _TEXTS),
        ("user_tags", _TEXTS),
        ("metadata", pa.string()),
        ("is_deleted", pa.bool_()),
    ]
)

_TYPES = [EventType.ASSET_ASSERTED.value, EventType.ASSET_PURGED.value]
_TIMES = ("created_at", "event_time", "updated_at")
_SAID = (
    "asset_name",
    "asset_type",
    "asset_owner",
    "description",
    "data_source",
    "external_id",
    "business_terms",
    "metadata",
    "is_deleted",
)
_BITS = {name: int(Field[name.upper()]) for name in _SAID} | {"tags": int(Field.USER_TAGS)}
TENANT = f"^{TENANT_NAME}$"
_ASSET_ID_MAX = 512
_TRACEPARENT = r"^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"
#: A NUL, escaped as JSON does it: the backslash before `u0000` is not itself escaped.
_NUL = r"(^|[^\\])(\\\\)*\\u0000"
_SHOWN = 200
_MOST_BYTES = 8 * 1024 * 1024
ACTOR_MAX = 256

#: What makes an event unfit, in the order it is looked at.
REASONS = {
    "empty": "the record has no value; send a JSON object",
    "too_large": f"at most {MAX_EVENT_BYTES} bytes are applied",
    "not_utf8": "the value is not UTF-8 text",
    "unknown_type": f"the header ce_type must be one of {', '.join(_TYPES)}",
    "no_id": "the header ce_id is missing, not UTF-8 text or has a NUL character",
    "no_tenant": "the header ce_tenantid must be a tenant's name: 1 to 63 letters, digits, _ . -",
    "bad_header": "a ce_ header is not UTF-8 text or has a NUL character",
    "malformed": "the value must be a JSON object with the fields of an asset in their types",
    "nul_character": "a text has a NUL character, which cannot be kept; leave it out",
    "no_asset_id": "asset_id (or the header ce_subject) must have 1 to 512 characters, no control characters",
    "bad_time": f"{', '.join(_TIMES)} must be ISO 8601 times",
    "bad_metadata": "metadata must be a JSON object",
    "bad_tag_origin": f"tag_origin must be one of {', '.join(TagOrigin)}",
}


@dataclass(frozen=True)
class _Record:
    """The columns of a batch of records, taken apart."""

    value: pa.Array
    payloads: Payloads
    times: dict[str, pa.Array]
    event_type: pa.Array
    given_id: pa.Array
    source: pa.Array
    tenant_id: pa.Array
    asset_id: pa.Array
    actor: pa.Array
    received: pa.Array
    traceparent: pa.Array

    @property
    def said(self) -> dict[str, pa.Array]:
        return self.payloads.said


def stage(records: pa.Table) -> pa.Table:
    """Records (transforms/records.py) in, rows of the staging table out."""
    return pa.Table.from_batches([stage_batch(batch) for batch in records.to_batches()], SCHEMA)


def stage_batch(records: pa.RecordBatch) -> pa.RecordBatch:
    """The same for one Arrow batch; of a large one in parts, as parsed JSON takes up to 25 times its room."""
    if records.num_rows > 1 and records["value"].nbytes > _MOST_BYTES:
        half = records.num_rows // 2
        return pa.concat_batches([stage_batch(records.slice(0, half)), stage_batch(records.slice(half))])
    record = _take_apart(records)
    reason = _judge(record)
    fit = pc.is_null(reason)
    columns = _dead_letter(records, reason) | _assertion(record, fit)
    columns |= {
        "received_at": record.received,
        "event_time": pc.coalesce(
            where(fit, record.times["event_time"]), where(fit, record.times["updated_at"]), record.received
        ),
        "traceparent": record.traceparent,
        "tenant_id": where(_passed(reason, "no_tenant"), record.tenant_id),
        "event_id": where(_passed(reason, "no_id"), event_ids(record.given_id, record.source)),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def sound_traces(texts: pa.Array) -> pa.Array:
    return where(matches_any(texts, _TRACEPARENT), texts)


def _take_apart(records: pa.RecordBatch) -> _Record:
    headers = Headers(records["headers"])
    payloads = read_payloads(records["value"])
    said = payloads.said
    return _Record(
        value=records["value"],
        payloads=payloads,
        times={name: instants(said[name]) for name in _TIMES},
        event_type=headers.texts("ce_type"),
        given_id=headers.texts("ce_id"),
        source=headers.texts("ce_source"),
        tenant_id=headers.texts("ce_tenantid"),
        asset_id=pc.coalesce(said["asset_id"], headers.texts("ce_subject")),
        actor=pc.fill_null(headers.texts("ce_actor"), ""),
        received=pc.coalesce(instants(headers.texts("ce_time")), records["timestamp"].cast(INSTANT)),
        traceparent=sound_traces(headers.texts("traceparent")),
    )


def _judge(record: _Record) -> pa.Array:
    """The first rule every event breaks, NULL for a fit one."""
    unfit = _broken_envelope(record) | _broken_payload(record)
    reason = pa.nulls(len(record.value), pa.string())
    for name in REASONS:
        if is_any(unfit[name]):
            reason = pc.if_else(pc.and_(pc.is_null(reason), unfit[name]), name, reason)
    return reason


def _broken_envelope(record: _Record) -> dict[str, pa.Array]:
    return {
        "empty": _is_missing(record.value),
        "too_large": is_true(pc.greater(pc.binary_length(record.value), MAX_EVENT_BYTES)),
        "not_utf8": is_true(pc.equal(record.payloads.flaws, NOT_UTF8)),
        "unknown_type": pc.invert(is_true(pc.is_in(record.event_type, pa.array(_TYPES)))),
        "no_id": pc.or_(_is_missing(record.given_id), controls(record.given_id, r"\x00")),
        "no_tenant": pc.invert(matches_any(record.tenant_id, TENANT)),
        "bad_header": pc.or_(controls(record.actor, r"\x00"), controls(record.source, r"\x00")),
    }


def _broken_payload(record: _Record) -> dict[str, pa.Array]:
    said, flaws = record.said, record.payloads.flaws
    lost_times = [pc.and_(pc.is_valid(said[name]), pc.is_null(record.times[name])) for name in _TIMES]
    return {
        "malformed": is_true(pc.equal(flaws, MALFORMED)),
        "nul_character": _has_nul(record.value),
        "no_asset_id": _is_no_asset_id(record.asset_id),
        "bad_time": pc.or_(pc.or_(lost_times[0], lost_times[1]), lost_times[2]),
        "bad_metadata": is_true(pc.equal(flaws, BAD_METADATA)),
        "bad_tag_origin": _is_other(
            said["tag_origin"], is_true(pc.is_in(said["tag_origin"], pa.array(list(TagOrigin))))
        ),
    }


def _has_nul(values: pa.Array) -> pa.Array:
    """A look for its letters in all of them first, which costs little: hardly any payload has them."""
    octets = all_octets(values)
    places = np.flatnonzero(octets == ord("\\"))
    for distance, letter in enumerate(b"u0000", 1):
        places = places[octets[np.minimum(places + distance, len(octets) - 1)] == letter]
    return matches(values, _NUL) if len(places) else pa.array(np.zeros(len(values), bool))


def _is_missing(values: pa.Array) -> pa.Array:
    return pc.invert(is_true(pc.greater(pc.binary_length(values), 0)))


def _is_no_asset_id(texts: pa.Array) -> pa.Array:
    is_too_long = is_true(pc.greater(pc.utf8_length(texts), _ASSET_ID_MAX))
    return pc.or_(pc.or_(_is_missing(texts), is_too_long), controls(texts))


def _is_other(values: pa.Array, allowed: pa.Array) -> pa.Array:
    """Whether there is a value and it is none of those allowed."""
    return pc.and_(pc.is_valid(values), pc.invert(allowed))


def _passed(reason: pa.Array, rule: str) -> pa.Array:
    """Whether an event kept this rule and all before it."""
    names = list(REASONS)
    return pc.invert(is_true(pc.is_in(reason, pa.array(names[: names.index(rule) + 1]))))


def _dead_letter(records: pa.RecordBatch, reason: pa.Array) -> dict[str, pa.Array]:
    """Where each record was; for a refused one also the record as it came, and why."""
    refused = pc.is_valid(reason)
    names = pc.index_in(reason, pa.array(list(REASONS)))
    words = pc.take(pa.array(list(REASONS.values())), names)
    shown = selected(records["value"], refused, beginning, pa.string())
    return {
        "topic": records["topic"],
        "partition": records["partition"],
        "offset": records["offset"],
        "key": where(refused, records["key"]),
        "payload": where(refused, records["value"]),
        "headers": selected(records["headers"], refused, headers_as_json, pa.string()),
        "reason": reason,
        "detail": pc.binary_join_element_wise(words, shown, "; got "),
    }


def _assertion(record: _Record, fit: pa.Array) -> dict[str, pa.Array]:
    """What a fit event says; a purge speaks about every field and says NULL."""
    is_purge = is_true(pc.equal(record.event_type, EventType.ASSET_PURGED.value))
    speaks = pc.and_(fit, pc.invert(is_purge))
    from_source = is_true(pc.equal(record.said["tag_origin"], TagOrigin.SOURCE.value))
    tags = where(speaks, record.said["tags"])
    mentioned = _with_origin(_mentioned(record.payloads.mentions), from_source)
    return {name: where(speaks, record.said[name]) for name in _SAID} | {
        "asset_id": where(fit, record.asset_id),
        "created_at": where(fit, record.times["created_at"]),
        "actor": where(fit, pc.utf8_slice_codeunits(record.actor, 0, ACTOR_MAX)),
        "expected_version": where(fit, record.said["expected_version"]),
        "fields": pc.if_else(is_purge, pa.scalar(int(ALL_FIELDS), pa.int16()), mentioned),
        "source_tags": where(from_source, tags),
        "user_tags": where(pc.invert(from_source), tags),
    }


def _mentioned(mentions: dict[str, Any]) -> pa.Array:
    """The fields each payload speaks about, as bits; a field that is null is spoken about, too."""
    return pa.array(sum(mentions[name] * np.int16(bit) for name, bit in _BITS.items()), pa.int16())


def _with_origin(mentioned: pa.Array, from_source: pa.Array) -> pa.Array:
    """The same, with tags as those of their origin."""
    user, source = int(Field.USER_TAGS), int(Field.SOURCE_TAGS)
    has_tags = pc.not_equal(pc.bit_wise_and(mentioned, pa.scalar(user, pa.int16())), 0)
    moved = pc.bit_wise_xor(mentioned, pa.scalar(user | source, pa.int16()))
    return pc.if_else(pc.and_(from_source, has_tags), moved, mentioned)


def beginning(value: bytes | None) -> str:
    """The beginning of a payload, as far as it can be shown."""
    return (value or b"")[:_SHOWN].decode(errors="replace").replace("\0", "") or "nothing"


def headers_as_json(headers: list[dict[str, Any]] | None) -> str:
    """Headers for the dead letter, in their order: names, and values in base 64."""
    kept = [{"key": h["key"], "value": b64encode(h["value"] or b"").decode()} for h in headers or []]
    return json.dumps(kept)
