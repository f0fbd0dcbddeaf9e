"""Turns records of `metadata-events` into staged statements, or into dead letters with the reason why."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from lily.domain.lineage import API, EVERYBODY, RelationshipType, Statement
from lily.log.envelope import MAX_EVENT_BYTES, EventType
from lily.repositories.postgres.lineage_applier import StagedStatement

Fields = dict[str, Any]

#: What each type of event speaks about, and whether it says so or takes it back.
MEANINGS: dict[str, tuple[Statement, bool]] = {
    EventType.EDGE_ASSERTED.value: (Statement.EDGE, True),
    EventType.EDGE_RETRACTED.value: (Statement.EDGE, False),
    EventType.TAGS_ASSERTED.value: (Statement.TAG, True),
    EventType.TAGS_RETRACTED.value: (Statement.TAG, False),
    EventType.TAGS_DECLINED.value: (Statement.OPT_OUT, True),
    EventType.TAGS_ADMITTED.value: (Statement.OPT_OUT, False),
    EventType.TAG_DEFINED.value: (Statement.DEFINITION, True),
    EventType.TAG_UNDEFINED.value: (Statement.DEFINITION, False),
}
_TENANT = re.compile(r"[A-Za-z0-9_.-]{1,63}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_ID = re.compile(r"[^\x00-\x1f\x7f]{1,512}")
_TAG = re.compile(r"[^\x00]{1,256}")
_SHOWN = 200
_MAX_KEY_BYTES = 2400
_TYPES = frozenset(RelationshipType)


class _Unfit(Exception):
    """Why a record cannot be applied."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def stage_statement(record: Mapping[str, Any]) -> StagedStatement:
    """A record as the Kafka source gives it in, a row of the staging table out."""
    place = {name: record[name] for name in ("topic", "partition", "offset")}
    headers = {header["key"]: header["value"] for header in record["headers"] or ()}
    known: Fields = {}
    try:
        known = _envelope(headers, record)
        return StagedStatement(**place, **(known | _statement(headers, record["value"])))
    except _Unfit as unfit:
        return StagedStatement(**place, **_dead_letter(record, known, unfit))


def _envelope(headers: Mapping[str, bytes | None], record: Mapping[str, Any]) -> Fields:
    texts = {name: _text(value) for name, value in headers.items() if name.startswith("ce_")}
    tenant, given = texts.get("ce_tenantid") or "", texts.get("ce_id") or ""
    if not given:
        raise _Unfit("no_id", "the header ce_id is missing, not UTF-8 text or has a NUL character")
    if not _TENANT.fullmatch(tenant):
        raise _Unfit("no_tenant", "the header ce_tenantid must be a tenant's name")
    received = _moment(texts.get("ce_time")) or _in_utc(record["timestamp"])
    trace = (_text(headers.get("traceparent")) or "") if "traceparent" in headers else ""
    return {
        "event_id": _event_id(given, texts.get("ce_source") or ""),
        "tenant_id": tenant,
        "received_at": received,
        "event_time": received,
        "actor": (texts.get("ce_actor") or "")[:256],
        "traceparent": trace if _TRACEPARENT.fullmatch(trace) else None,
    }


def _statement(headers: Mapping[str, bytes | None], value: bytes | None) -> Fields:
    event_type = _text(headers.get("ce_type")) or ""
    if event_type not in MEANINGS:
        raise _Unfit("unknown_type", f"the header ce_type must be one of {', '.join(MEANINGS)}")
    kind, holds = MEANINGS[event_type]
    said = _payload(value)
    row: Fields = {"kind": kind.value, "holds": holds, "source": _source(said, holds)}
    if "event_time" in said:
        row["event_time"] = _moment(said.pop("event_time"))
        if row["event_time"] is None:
            raise _Unfit("bad_time", "event_time must be an ISO 8601 time")
    if kind is Statement.EDGE:
        row |= {"from_id": _id(said, "from_asset_id"), "to_id": _id(said, "to_asset_id")}
        row["relationship_type"] = said.pop("relationship_type", None)
        if row["relationship_type"] not in _TYPES:
            raise _Unfit("bad_relationship_type", f"relationship_type must be one of {', '.join(_TYPES)}")
        row["tags"] = _tags(said, "blocked_tags", least=0)
        _check_switches(said, ("is_indirect", "is_masking"))
    else:
        row["tags"] = _tags(said, "tags", least=1)
        _check_switches(said, ("lineage", "containment", "indirect", "stopped_by_masking"))
        if kind is not Statement.DEFINITION:
            row["from_id"] = _id(said, "asset_id")
    _check_size(row)
    return row | {"body": json.dumps(said)}


def _check_switches(said: Fields, names: tuple[str, ...]) -> None:
    if wrong := [name for name in names if not isinstance(said.get(name, False), bool)]:
        raise _Unfit("malformed", f"{', '.join(wrong)} must be true or false")


def _check_size(row: Fields) -> None:
    """What becomes a key must fit into one."""
    ids = "".join(row.get(name) or "" for name in ("from_id", "to_id", "source"))
    tag = max((len(tag.encode()) for tag in row["tags"]), default=0)
    if len(ids.encode()) + tag > _MAX_KEY_BYTES:
        raise _Unfit("too_large", f"ids, source and tag together may have {_MAX_KEY_BYTES} bytes")


def _payload(value: bytes | None) -> Fields:
    if not value:
        raise _Unfit("empty", "the record has no value; send a JSON object")
    if len(value) > MAX_EVENT_BYTES:
        raise _Unfit("too_large", f"at most {MAX_EVENT_BYTES} bytes are applied")
    try:
        said = json.loads(value)
        json.dumps(said, ensure_ascii=False, allow_nan=False).encode()  # else PostgreSQL could not keep it
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise _Unfit("malformed", "the value must be a JSON object")
    if b"\\u0000" in value:
        raise _Unfit("nul_character", "a text has a NUL character, which cannot be kept; leave it out")
    return said


def _source(said: Fields, holds: bool) -> str:
    source = said.pop("source", API)
    if not isinstance(source, str) or not _TAG.fullmatch(source) or (holds and source == EVERYBODY):
        raise _Unfit("bad_source", "source must be 1 to 256 characters; '*' can only retract")
    return source


def _id(said: Fields, name: str) -> str:
    value = said.pop(name, None)
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise _Unfit("no_asset_id", f"{name} must have 1 to 512 characters, no control characters")
    return value


def _tags(said: Fields, name: str, least: int) -> list[str]:
    tags = said.pop(name, None) or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) and _TAG.fullmatch(tag) for tag in tags):
        raise _Unfit("bad_tags", f"{name} must be a list of texts of 1 to 256 characters")
    if len(tags) < least:
        raise _Unfit("bad_tags", f"{name} must not be empty")
    return sorted(set(tags))


def _dead_letter(record: Mapping[str, Any], known: Fields, unfit: _Unfit) -> Fields:
    value = record["value"] or b""
    shown = value[:_SHOWN].decode(errors="replace").replace("\x00", "\N{REPLACEMENT CHARACTER}")
    headers = [
        {"key": header["key"], "value": b64encode(header["value"] or b"").decode()}
        for header in record["headers"] or ()
    ]
    return {
        "reason": unfit.reason,
        "detail": f"{unfit.detail}; it begins: {shown}" if shown else unfit.detail,
        "key": record["key"],
        "payload": value,
        "headers": json.dumps(headers),
        **{name: known.get(name) for name in ("event_id", "tenant_id", "received_at", "event_time")},
    }


def _event_id(given: str, source: str) -> str:
    try:
        return str(UUID(given))
    except ValueError:
        digest = hashlib.md5(f"{source}\x1f{given}".encode(), usedforsecurity=False)
        return str(UUID(digest.hexdigest()))


def _text(value: bytes | None) -> str | None:
    try:
        text = value.decode() if value is not None else None
    except UnicodeDecodeError:
        return None
    return None if text is None or "\x00" in text else text


def _moment(text: object) -> datetime | None:
    try:
        return _in_utc(datetime.fromisoformat(text)) if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def _in_utc(at: datetime) -> datetime:
    return at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)


def stage_statements(records: Iterable[Mapping[str, Any]]) -> list[StagedStatement]:
    return [stage_statement(record) for record in records]
