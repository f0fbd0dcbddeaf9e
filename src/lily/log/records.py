"""Records of many events at once: what they have in common is encoded once.

Encoding each envelope by itself costs 7 µs per event, this 1.5 µs, which at 10,000 events/s is 5 % of a core.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from msgspec import Struct

from lily.domain.event_ids import size_of
from lily.log.envelope import Envelope, Headers


class Record(Struct, frozen=True):
    """As Kafka's client takes it."""

    key: bytes
    value: bytes
    headers: Headers


def record_of(envelope: Envelope) -> Record:
    return Record(envelope.key, envelope.data, envelope.headers())


class RecordTemplate:
    """Makes records of events that differ from one envelope in id, subject and data only."""

    def __init__(self, envelope: Envelope) -> None:
        self._headers = envelope.headers()
        names = [name for name, _ in self._headers]
        self._id, self._subject = names.index("ce_id"), names.index("ce_subject")
        #: Where `ce_time` stands among the headers, for events that have a time of their own.
        self.time = names.index("ce_time")
        self._key_prefix = envelope.key.removesuffix(envelope.subject.encode())

    def record(self, event_id: bytes, subject: str, data: bytes) -> Record:
        encoded = subject.encode()
        headers = self._headers.copy()
        headers[self._id] = ("ce_id", event_id)
        headers[self._subject] = ("ce_subject", encoded)
        return Record(self._key_prefix + encoded, data, headers)


def member_texts(batch_id: UUID) -> Iterator[bytes]:
    """The ids of a batch's events as text, in order: they count up in their last five digits."""
    text = str(batch_id)
    prefix, first = text[:-5].encode(), int(text[-5:], 16)
    return map((prefix + b"%05x").__mod__, range(first, first + size_of(batch_id)))
