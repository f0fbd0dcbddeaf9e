"""What one record of `metadata-events` says, or why it cannot be applied."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json

from lily.domain.incidents import MAX_TEXT, StepKind, what_is_wrong
from lily.domain.lineage import API, EVERYBODY, RelationshipType, Statement
from lily.domain.tags import SPREADING
from lily.log.envelope import MAX_EVENT_BYTES, EventType

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
    EventType.INCIDENT_REPORTED.value: (Statement.INCIDENT, True),
}
_ID = re.compile(r"[^\x00-\x1f\x7f]{1,512}")
_TAG = re.compile(r"[^\x00]{1,256}")
_MAX_KEY_BYTES = 2400
_TYPES = frozenset(RelationshipType)
#: What cannot be kept is refused: a number that is none, half a character.
_ENCODER = json.JSONEncoder(allow_nan=False, check_circular=False)
#: What else most edges say, and its text: to encode it takes a third of the time of reading an edge.
_PLAIN = {"is_indirect": False, "is_masking": False}
_PLAIN_TEXT = _ENCODER.encode(_PLAIN)


class Unfit(Exception):
    """Why a record cannot be applied."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def read_statement(event_type: str | None, value: bytes | None) -> Fields:
    """What the staging table's columns from `kind` on hold, and `event_time` where it is said; or `Unfit`."""
    if event_type not in MEANINGS:
        raise Unfit("unknown_type", f"the header ce_type must be one of {', '.join(MEANINGS)}")
    kind, holds = MEANINGS[event_type]
    said = _payload(value)
    row: Fields = {"kind": kind.value, "holds": holds, "source": _source(said, holds)}
    if "event_time" in said:
        row["event_time"] = _moment(said.pop("event_time"))
        if row["event_time"] is None:
            raise Unfit("bad_time", "event_time must be an ISO 8601 time")
    if kind is Statement.EDGE:
        row |= {"from_id": _id(said, "from_asset_id"), "to_id": _id(said, "to_asset_id")}
        row["relationship_type"] = said.pop("relationship_type", None)
        if row["relationship_type"] not in _TYPES:
            raise Unfit("bad_relationship_type", f"relationship_type must be one of {', '.join(_TYPES)}")
        row["tags"] = _tags(said, "blocked_tags", least=0)
        _check_switches(said, ("is_indirect", "is_masking"))
    elif kind is Statement.INCIDENT:
        row |= {"from_id": _id(said, "incident_id"), "tags": []}
        _check_step(said)
    else:
        row["tags"] = _tags(said, "tags", least=1)
        _check_switches(
            said, ("lineage", "containment", "indirect", "stopped_by_masking", "keep_when_deleted")
        )
        if kind is Statement.TAG and any(tag.startswith(SPREADING) for tag in row["tags"]):
            raise Unfit("reserved_tag", f"tags that start with {', '.join(SPREADING)} follow from fields")
        if kind is not Statement.DEFINITION:
            row["from_id"] = _id(said, "asset_id")
    _check_size(row)
    row["body"] = _body(said)
    return row


def _body(said: Fields) -> str:
    """What else was said."""
    if said == _PLAIN:
        return _PLAIN_TEXT
    try:
        return _ENCODER.encode(said)
    except (ValueError, RecursionError):
        raise Unfit("malformed", "a number is too large to be kept") from None


def _check_switches(said: Fields, names: tuple[str, ...]) -> None:
    if wrong := [name for name in names if not isinstance(said.get(name, False), bool)]:
        raise Unfit("malformed", f"{', '.join(wrong)} must be true or false")


def _check_step(said: Fields) -> None:
    """A step of an incident: its kind, what it says, what held at first, perhaps a comment."""
    if said.get("step") not in set(StepKind):
        raise Unfit("bad_step", f"step must be one of {', '.join(StepKind)}")
    for part in ("said", "first"):
        fields = said.setdefault(part, {})
        wrong = what_is_wrong(fields) if isinstance(fields, dict) else "must be an object"
        if wrong:
            raise Unfit("bad_step", f"{part}: {wrong}")
    if both := sorted(said["said"].keys() & said["first"].keys()):
        raise Unfit("bad_step", f"{both[0]} is both said and said at first; leave one out")
    comment = said.get("comment", "-")
    if not isinstance(comment, str) or not 0 < len(comment) <= MAX_TEXT:
        raise Unfit("bad_step", f"comment must have 1 to {MAX_TEXT:,} characters")


def _check_size(row: Fields) -> None:
    """What becomes a key must fit into one."""
    ids = f"{row.get('from_id', '')}{row.get('to_id', '')}{row['source']}"
    tag = max((len(tag.encode()) for tag in row["tags"]), default=0)
    if len(ids.encode()) + tag > _MAX_KEY_BYTES:
        raise Unfit("too_large", f"ids, source and tag together may have {_MAX_KEY_BYTES} bytes")


def _payload(value: bytes | None) -> Fields:
    if not value:
        raise Unfit("empty", "the record has no value; send a JSON object")
    if len(value) > MAX_EVENT_BYTES:
        raise Unfit("too_large", f"at most {MAX_EVENT_BYTES} bytes are applied")
    try:
        said = from_json(value, allow_inf_nan=False)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise Unfit("malformed", "the value must be a JSON object")
    if b"\\u0000" in value:
        raise Unfit("nul_character", "a text has a NUL character, which cannot be kept; leave it out")
    return said


def _source(said: Fields, holds: bool) -> str:
    source = said.pop("source", API)
    if not isinstance(source, str) or not _TAG.fullmatch(source) or (holds and source == EVERYBODY):
        raise Unfit("bad_source", "source must be 1 to 256 characters; '*' can only retract")
    return source


def _id(said: Fields, name: str) -> str:
    value = said.pop(name, None)
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise Unfit("no_asset_id", f"{name} must have 1 to 512 characters, no control characters")
    return value


def _tags(said: Fields, name: str, least: int) -> list[str]:
    tags = said.pop(name, None) or []
    if not tags and not least:
        return []
    if not isinstance(tags, list) or not all(isinstance(tag, str) and _TAG.fullmatch(tag) for tag in tags):
        raise Unfit("bad_tags", f"{name} must be a list of texts of 1 to 256 characters")
    if len(tags) < least:
        raise Unfit("bad_tags", f"{name} must not be empty")
    return sorted(set(tags))


def _moment(text: object) -> datetime | None:
    try:
        return _in_utc(datetime.fromisoformat(text)) if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def _in_utc(at: datetime) -> datetime:
    return at if at.tzinfo is UTC else at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)
