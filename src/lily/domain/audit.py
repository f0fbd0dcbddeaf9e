"""What the audit remembers of one act, and the chain of hashes that shows whether anything was changed since.

Every tenant has a chain: an entry's hash covers its number, its content and the hash before it, so that an
entry cannot be changed, moved or taken out without breaking what follows. The head (number and hash of the
last entry) is signed with a key the database does not have, so that the end cannot be cut off either.
"""

from __future__ import annotations

import hmac
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import NamedTuple
from uuid import UUID

#: The chain of acts that concern no tenant, such as a token nobody can read. No tenant can have this name.
INSTALLATION = "*"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: PostgreSQL cannot keep these in a text.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_LONGEST = 2000
_AT, _EVENT_ID = 10, 11


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who did what, as whom, from where, and why it was allowed or not."""

    tenant_id: str
    actor: str
    acting_as: str
    address: str
    action: str
    resource_kind: str
    resource_id: str
    allowed: bool
    reason: str
    trace_id: str
    at: datetime
    #: Of a write that was applied: its batch, and how many events of it this entry tells of.
    event_id: UUID | None = None
    events: int = 0


class Head(NamedTuple):
    """The end of a tenant's chain."""

    seq: int
    hash: bytes


def beginning(tenant_id: str) -> Head:
    """The head of a chain without entries."""
    return Head(0, sha256(b"lily audit\x1f" + tenant_id.encode()).digest())


def extend(head: Head, entry: AuditEntry) -> Head:
    """The head after one more entry."""
    seq = head.seq + 1
    return Head(seq, sha256(head.hash + b"%d\x1f" % seq + entry_line(entry)).digest())


def sign_head(key: bytes, tenant_id: str, head: Head) -> bytes:
    """The seal of a head: only who has the key can make it."""
    message = b"\x1f".join((tenant_id.encode(), b"%d" % head.seq, head.hash))
    return hmac.new(key, message, sha256).digest()


def entry_line(entry: AuditEntry) -> bytes:
    """An entry as one line of JSON: always the same bytes for the same entry."""
    fields = [
        entry.tenant_id,
        entry.actor,
        entry.acting_as,
        entry.address,
        entry.action,
        entry.resource_kind,
        entry.resource_id,
        entry.allowed,
        entry.reason,
        entry.trace_id,
        (entry.at - _EPOCH) // _MICROSECOND,
        entry.event_id.hex if entry.event_id else None,
        entry.events,
    ]
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def parse_line(line: bytes) -> AuditEntry:
    """The entry a line was made of; `ValueError` when it is not a whole line."""
    try:
        fields = json.loads(line)
        fields[_AT] = _EPOCH + fields[_AT] * _MICROSECOND
        fields[_EVENT_ID] = UUID(fields[_EVENT_ID]) if fields[_EVENT_ID] else None
        return AuditEntry(*fields)
    except (TypeError, LookupError, AttributeError) as error:
        raise ValueError(f"not an audit entry: {line[:80]!r}") from error


def storable(text: str) -> str:
    """The text as it can be kept: bounded, and without what PostgreSQL refuses."""
    return _UNSTORABLE.sub("\ufffd", text[:_LONGEST])
