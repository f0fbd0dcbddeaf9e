"""Cursors: where a reader of changes is on the log, signed, and good for one tenant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lily.access.requests import MalformedRequest
from lily.serving.rest.pages import PageTokens


@dataclass(frozen=True, slots=True)
class Place:
    """The next offset of every partition of the topic of a tenant's cell."""

    topic: str
    offsets: Mapping[int, int]


class Cursors:
    def __init__(self, secret: str) -> None:
        self._tokens = PageTokens(secret)

    def issue(self, tenant_id: str, place: Place) -> str:
        flat = [number for pair in sorted(place.offsets.items()) for number in pair]
        return self._tokens.issue([place.topic, *flat], ("live", tenant_id))

    def read(self, tenant_id: str, cursor: str) -> Place:
        """The place; `MalformedRequest` when the cursor is not ours or is another tenant's."""
        try:
            topic, *flat = self._tokens.read(cursor, ("live", tenant_id))
        except MalformedRequest:
            raise MalformedRequest("the cursor is not one this tenant was given; leave it out") from None
        return Place(topic, dict(zip(flat[::2], flat[1::2], strict=True)))
