"""Event ids: UUIDs whose last bits say which member of how large a batch an event is.

A batch of n events is answered with one id. Because every member differs only in its last ten bits and
carries the size, the id alone is enough to ask whether all n have been applied: no lookup table, any
gateway can answer. The layout is a version 7 UUID (RFC 9562 leaves these bits to the maker):

    48 bits milliseconds | 4 version | 12 random | 2 variant | 42 random | 10 size - 1 | 10 index
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from hashlib import sha256
from uuid import UUID

MAX_BATCH = 1 << 10
_INDEX_BITS = 10
_SIZE_SHIFT = _INDEX_BITS
_INDEX_MASK = MAX_BATCH - 1


def new_batch_id(now_ms: int, size: int = 1) -> UUID:
    """The id of the first event of a new batch, which also stands for the whole batch."""
    return _lay_out((now_ms & ((1 << 48) - 1)) << 80 | secrets.randbits(80), version=7, size=size)


def batch_id_from_key(scope: str, key: str, size: int = 1) -> UUID:
    """The same id every time for one idempotency key, so that a retry can have no second effect."""
    digest = int.from_bytes(sha256(f"{scope}\x1f{key}".encode()).digest()[:16])
    return _lay_out(digest, version=8, size=size)


def members(batch_id: UUID) -> Iterator[UUID]:
    """The ids of the batch's events, in order."""
    first = batch_id.int & ~_INDEX_MASK
    return (UUID(int=first | index) for index in range(size_of(batch_id)))


def first_member(event_id: UUID) -> UUID:
    """The id of the batch an event belongs to; an id that Lily did not make stands for itself."""
    return UUID(int=event_id.int & ~_INDEX_MASK) if event_id.version in (7, 8) else event_id


def last_member(batch_id: UUID) -> UUID:
    return UUID(int=(batch_id.int & ~_INDEX_MASK) | (size_of(batch_id) - 1))


def size_of(batch_id: UUID) -> int:
    return ((batch_id.int >> _SIZE_SHIFT) & _INDEX_MASK) + 1


def _lay_out(bits: int, *, version: int, size: int) -> UUID:
    if not 1 <= size <= MAX_BATCH:
        raise ValueError(f"a batch has 1 to {MAX_BATCH} events, not {size}")
    bits &= ~(0xF << 76) & ~(0x3 << 62) & ~((1 << 20) - 1)
    return UUID(int=bits | version << 76 | 0x2 << 62 | (size - 1) << _SIZE_SHIFT)
