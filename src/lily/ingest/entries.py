"""Writes for interfaces other than REST: the same checks, the same rights, the same events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic_core import to_json

from lily.access.calls import Call
from lily.domain.errors import InvalidInput
from lily.ingest.assertions import Arrival, Draft, draft_assertion
from lily.ingest.assets import AssetBody, AssetPatch
from lily.ingest.lineage import Classification, Relationship, draft_edge, draft_tags
from lily.ingest.payloads import Decoder
from lily.ingest.recorder import Waiting
from lily.ingest.rest.lineage import require_flow
from lily.ingest.rest.writing import Write, Writer, raise_first, raise_refusal

_ASSET: Decoder[AssetBody] = Decoder(AssetBody)
_PATCH: Decoder[AssetPatch] = Decoder(AssetPatch)
_EDGE: Decoder[Relationship] = Decoder(Relationship)
_TAGS: Decoder[Classification] = Decoder(Classification)

Fields = dict[str, Any]


class Entries:
    """Each returns when its event is visible; `source` names the interface in the event's envelope."""

    def __init__(self, writer: Writer, source: str) -> None:
        self._writer = writer
        self._source = source

    async def create(self, call: Call, fields: Fields) -> None:
        """Create or change an asset."""
        write = self._begin(call)
        said: Fields = _ASSET.decode(to_json(fields))
        draft = draft_assertion(dict(said), write.arrival)
        raise_first(await self._writer.authorise(write, [(draft.asset_id, said)]))
        await self._record(write, draft)

    async def change(self, call: Call, asset_id: str, fields: Fields) -> None:
        """Change an asset that exists."""
        write = self._begin(call)
        current = await self._writer.current(write, asset_id)
        said: Fields = _PATCH.decode(to_json(fields | {"asset_id": asset_id}))
        await self._writer.guard.require_change(call, current, said)
        await self._record(write, draft_assertion(said, write.arrival, current.asset_type))

    async def link(self, call: Call, relationship: Fields) -> None:
        """Assert an edge."""
        write = self._begin(call)
        said: Fields = _EDGE.decode(to_json(relationship))
        ends = (said["from_asset_id"], said["to_asset_id"])
        raise_first(await self._writer.authorise(write, [(end, {}) for end in dict.fromkeys(ends)]))
        await require_flow(self._writer, write, [said])
        await self._record(write, draft_edge(said, write.arrival))

    async def classify(self, call: Call, asset_id: str, tags: Sequence[str]) -> None:
        """Assert tags on an asset that exists."""
        if not tags:
            raise InvalidInput("updated_metadata must have tags, asset_owner, business_terms or metadata")
        write = self._begin(call)
        current = await self._writer.current(write, asset_id)
        said: Fields = _TAGS.decode(to_json({"asset_id": asset_id, "tags": list(tags)}))
        after = sorted({*current.traits.user_tags, *said["tags"]})
        raise_first(await self._writer.authorise(write, [(asset_id, {"tags": after})]))
        await self._record(write, draft_tags(said, write.arrival))

    def _begin(self, call: Call) -> Write:
        who = call.principal
        arrival = Arrival(who.tenant_id, who.subject, self._source, call.traceparent, datetime.now(UTC))
        return Write(call, arrival, None, Waiting(self._writer.wait_seconds, must_see=True))

    async def _record(self, write: Write, draft: Draft) -> None:
        raise_refusal(await self._writer.recorder.record(write.submission([draft])))
