"""One reading of a source: what is new or different is sent, what is no longer there is hidden."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import Any

from pydantic_core import to_json

from lily.access.assets import resource_of
from lily.access.decisions import Action
from lily.domain.assets import Traits, derive_asset_id
from lily.domain.lineage import RelationshipType
from lily.domain.scraping import Found, FoundAsset, FoundLineage, Mode
from lily.ingest.assertions import Arrival, Draft, draft_assertion
from lily.ingest.lineage import draft_edge
from lily.ingest.payloads import decode_assets
from lily.ingest.scraping.lineage import LineageRun
from lily.ingest.scraping.sending import Outbox
from lily.repositories.postgres.scraping import ScrapedItem

#: An asset and the edge to what contains it are two events, and a batch has at most 1,024.
_PAGE = 500
Known = dict[tuple[bool, str], ScrapedItem]


@dataclass(frozen=True, slots=True)
class Place:
    """Of which source something is: the name its assets have as `data_source`, and who says so."""

    data_source: str
    said_by: str
    group: str

    def asset_id(self, external_id: str) -> str:
        return _asset_id(self.data_source, external_id)


@lru_cache(maxsize=100_000)
def _asset_id(data_source: str, external_id: str) -> str:
    return derive_asset_id(data_source, external_id)


class Run:
    """Reads a source once. `found` is read in a thread, a page at a time, while the page before is sent."""

    def __init__(self, outbox: Outbox, place: Place, arrival: Arrival, mode: Mode) -> None:
        self._outbox = outbox
        self._place = place
        self._arrival = arrival
        self._mode = mode
        self._known: Known = {}
        #: What this run saw, with its type and the ids of all that contains it.
        self._seen: dict[str, tuple[str, frozenset[str]]] = {}
        self._above: dict[str, frozenset[str]] = {}
        self._left_out = 0

    async def send(self, found: Generator[Found]) -> None:
        """Return when the catalog shows what the source has."""
        self._known = await self._outbox.items.load()
        lineage = LineageRun(self._outbox, self._place.said_by, self._arrival, self._ends)
        try:
            async for page in _pages(found):
                assets = [each for each in page if isinstance(each, FoundAsset)]
                if assets:
                    await self._send_assets(assets)
                for each in page:
                    if isinstance(each, FoundLineage):
                        known = self._known.pop((True, each.external_id), None)
                        await lineage.send(each, known, again=self._mode is Mode.FULL)
            await lineage.flush()
            await self._hide_vanished(lineage)
            await self._outbox.settle()
        finally:
            await self._outbox.abandon()
        self._note_left_out()

    async def _send_assets(self, assets: Sequence[FoundAsset]) -> None:
        self._outbox.counts["found"] += len(assets)
        await self._look_above(assets)
        changed: list[tuple[FoundAsset, ScrapedItem, bool]] = []
        for asset, is_allowed in zip(assets, await self._may_touch(assets), strict=True):
            known = self._known.pop((False, asset.external_id), None)
            if not is_allowed:
                continue
            item = ScrapedItem(False, asset.external_id, asset.asset_type, _fingerprint(self._place, asset))
            if known is None or self._mode is Mode.FULL or known.fingerprint != item.fingerprint:
                changed.append((asset, item, known is None))
            else:
                self._outbox.counts["unchanged"] += 1
        await self._send_changed(changed)

    async def _send_changed(self, changed: Sequence[tuple[FoundAsset, ScrapedItem, bool]]) -> None:
        if not changed:
            return
        bodies = [self._body(asset, is_new=is_new) for asset, _, is_new in changed]
        decoded = decode_assets(to_json({"assets": bodies}))
        for rejection in decoded.rejected:
            self._outbox.counts["rejected"] += 1
            self._outbox.note(f"{changed[rejection.index][0].external_id}: {rejection.error.message}")
        writes: list[tuple[FoundAsset, ScrapedItem, dict[str, Any], Draft]] = []
        for index, fields in zip(decoded.indexes, decoded.assets, strict=True):
            asset, item, _ = changed[index]
            said = dict(fields)
            writes.append((asset, item, said, draft_assertion(said, self._arrival)))
        refused = await self._refused([(asset, said) for asset, _, said, _ in writes])
        allowed = [each for each in writes if each[0].external_id not in refused]
        self._outbox.counts["refused"] += len(writes) - len(allowed)
        self._outbox.counts["sent"] += len(allowed)
        edges = [self._containment(asset) for asset, *_ in allowed if set(asset.parents[-1:]) - refused]
        drafts = [draft for *_, draft in allowed] + edges
        await self._outbox.send(self._arrival, drafts, [item for _, item, *_ in allowed])

    async def _refused(self, writes: Sequence[tuple[FoundAsset, Mapping[str, Any]]]) -> set[str]:
        """The external ids of the assets, and of what contains them, that may not be written."""
        said: dict[str, Mapping[str, Any]] = {
            asset.parents[-1]: {} for asset, _ in writes if asset.parents
        } | {asset.external_id: fields for asset, fields in writes}
        names = list(said)
        decided = [(self._place.asset_id(name), said[name]) for name in names]
        inside = {self._place.asset_id(name): self._seen[name][1] for name in names}
        return {names[at] for at in await self._outbox.refused(decided, inside)}

    def _ends(self, external_id: str) -> tuple[str, str, frozenset[str]]:
        """Id, type and containers of the end of an edge."""
        asset_type, inside = self._seen.get(external_id, ("", frozenset()))
        return self._place.asset_id(external_id), asset_type, inside

    async def _may_touch(self, assets: Sequence[FoundAsset]) -> list[bool]:
        """By what is known before Lily knows the assets; of those left out the audit has one entry."""
        call, resources = self._outbox.call, []
        for asset in assets:
            asset_id, inside = self._place.asset_id(asset.external_id), self._inside(asset)
            self._seen[asset.external_id] = asset.asset_type, inside
            traits = Traits(asset_id, asset.asset_type, self._place.data_source)
            resources.append(resource_of(call.tenant_id, traits, inside))
        await call.access.refresh(call.tenant_id)
        asked = [(call.principal, Action.WRITE, resource) for resource in resources]
        decisions = call.access.decide_batch(call.tenant_id, asked, call.circumstances)
        left_out = sum(not decision.allowed for decision in decisions)
        self._left_out += left_out
        self._outbox.counts["refused"] += left_out
        return [decision.allowed for decision in decisions]

    async def _look_above(self, assets: Sequence[FoundAsset]) -> None:
        """Learn what Lily knows to contain the outermost assets of the source."""
        roots = {(asset.parents or (asset.external_id,))[0] for asset in assets} - self._above.keys()
        if roots:
            ids = {self._place.asset_id(root): root for root in roots}
            stored = await self._outbox.guard.assets.containers(self._arrival.tenant_id, list(ids))
            self._above |= {root: stored.get(asset_id, frozenset()) for asset_id, root in ids.items()}

    def _inside(self, asset: FoundAsset) -> frozenset[str]:
        above = self._above[(asset.parents or (asset.external_id,))[0]]
        return above.union(map(self._place.asset_id, asset.parents))

    def _body(self, asset: FoundAsset, *, is_new: bool) -> dict[str, Any]:
        """What is said of an asset; what only people know of it is not spoken about."""
        body: dict[str, Any] = {
            "asset_name": asset.name,
            "asset_type": asset.asset_type,
            "data_source": self._place.data_source,
            "external_id": asset.external_id,
            "metadata": dict(asset.metadata),
        }
        if asset.description:
            body["description"] = asset.description
        if is_new:
            body["is_deleted"] = False
        return body

    def _containment(self, asset: FoundAsset) -> Draft:
        edge = {
            "from_asset_id": self._place.asset_id(asset.parents[-1]),
            "to_asset_id": self._place.asset_id(asset.external_id),
            "relationship_type": RelationshipType.CONTAINS.value,
            "source": self._place.said_by,
        }
        return draft_edge(edge, self._arrival)

    async def _hide_vanished(self, lineage: LineageRun) -> None:
        """Hidden assets stay contained in what they were: who may not see that may not see them."""
        vanished = list(self._known.values())
        for item in vanished:
            if item.is_lineage:
                await lineage.retract(item)
        await lineage.flush()
        assets = [item for item in vanished if not item.is_lineage]
        for start in range(0, len(assets), _PAGE):
            await self._hide(assets[start : start + _PAGE])

    async def _hide(self, items: Sequence[ScrapedItem]) -> None:
        said = [{"asset_id": self._place.asset_id(i.external_id), "is_deleted": True} for i in items]
        refused = await self._outbox.refused([(str(each["asset_id"]), each) for each in said], {})
        gone = [
            (item, each) for at, (item, each) in enumerate(zip(items, said, strict=True)) if at not in refused
        ]
        self._outbox.counts["refused"] += len(refused)
        self._outbox.counts["deleted"] += len(gone)
        drafts = [draft_assertion(each, self._arrival, item.asset_type) for item, each in gone]
        await self._outbox.forget(self._arrival, drafts, [item for item, _ in gone])

    def _note_left_out(self) -> None:
        if not self._left_out:
            return
        roots = ", ".join(sorted(map(self._place.asset_id, self._above)))
        hint = (
            f"PUT /lily/v1/access/scraper-policies/{self._place.group} with allowed_columns; {roots} is all"
        )
        self._outbox.note(
            f"{self._left_out} assets may not be touched by this scraper; {hint} of this source"
        )
        reason = f"{self._left_out} assets: no scraper policy of {self._place.group} names them"
        self._outbox.call.notebook.write("write", ("asset", ""), False, reason)


async def _pages(found: Generator[Found]) -> AsyncIterator[list[Found]]:
    try:
        while page := await asyncio.to_thread(lambda: list(islice(found, _PAGE))):
            yield page
    finally:
        found.close()


def _fingerprint(place: Place, asset: FoundAsset) -> bytes:
    said = [place.data_source, asset.asset_type, asset.name, asset.parents, asset.metadata, asset.description]
    return blake2b(to_json(said), digest_size=16).digest()
