"""What a run says about lineage: edges that are new are asserted, those that are no more are retracted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lily.domain.lineage import RelationshipType
from lily.domain.scraping import UNKNOWN, FoundEdge, FoundLineage
from lily.ingest.assertions import Arrival, Draft
from lily.ingest.lineage import draft_edge, draft_edge_retraction
from lily.ingest.scraping.sending import Outbox
from lily.repositories.postgres.scraping import ScrapedItem

#: Edges collected before they are decided and sent together.
_PAGE = 500
_BATCH = 1000
#: Id, type and containers of the asset with this external id.
Ends = Callable[[str], tuple[str, str, frozenset[str]]]
Edges = dict[FoundEdge, None]


class _Piece:
    """The lineage of one asset: what is to be said, what taken back, and what is remembered then."""

    def __init__(self, item: ScrapedItem, said: Edges, known: Edges, *, again: bool) -> None:
        self.item = item
        self.kept = [edge for edge in said if edge in known and not again]
        self.asserted = [edge for edge in said if edge not in known or again]
        # An edge said in another way is said again, not taken back.
        ends = {(edge.source, edge.target) for edge in said}
        self.retracted = [edge for edge in known if (edge.source, edge.target) not in ends]


class LineageRun:
    """Collects the lineage of a run and sends it in pages."""

    def __init__(self, outbox: Outbox, said_by: str, arrival: Arrival, ends: Ends) -> None:
        self._outbox = outbox
        self._said_by = said_by
        self._arrival = arrival
        self._ends = ends
        self._pieces: list[_Piece] = []
        self._size = 0

    async def send(self, found: FoundLineage, known: ScrapedItem | None, *, again: bool) -> None:
        """Say where an asset comes from; edges whose basis is the same are neither derived nor said."""
        fingerprint = bytes.fromhex(found.basis)[:16]
        if known is not None and known.fingerprint == fingerprint and not again:
            self._outbox.counts["unchanged"] += 1
            return
        derived = await asyncio.to_thread(found.derive)
        if any(edge.subtype == UNKNOWN for edge in derived):
            self._outbox.note(
                f"{found.external_id}: its SQL was not understood; each of its columns is taken to come from "
                "every column it uses"
            )
        item = ScrapedItem(True, found.external_id, "", fingerprint)
        await self._add(_Piece(item, dict.fromkeys(derived), _edges_of(known), again=again))

    async def retract(self, known: ScrapedItem) -> None:
        """Take back all edges of something that is no longer there."""
        await self._add(_Piece(replace(known, fingerprint=b""), {}, _edges_of(known), again=False))

    async def _add(self, piece: _Piece) -> None:
        self._pieces.append(piece)
        self._size += len(piece.asserted) + len(piece.retracted)
        if self._size >= _PAGE:
            await self.flush()

    async def flush(self) -> None:
        """Decide about what was collected, and send it."""
        pieces, self._pieces, self._size = self._pieces, [], 0
        if not pieces:
            return
        changing = [edge for piece in pieces for edge in (*piece.asserted, *piece.retracted)]
        closed = await self._closed(changing)
        hidden = await self._hidden([edge for piece in pieces for edge in piece.retracted])
        for piece in pieces:
            await self._send(piece, closed, hidden)

    async def _send(self, piece: _Piece, closed: set[str], hidden: set[str]) -> None:
        counts = self._outbox.counts
        said = [edge for edge in piece.asserted if not {edge.source, edge.target} & closed]
        gone = [
            edge
            for edge in piece.retracted
            if not {edge.source, edge.target} & closed and edge.target not in hidden
        ]
        stays = [edge for edge in piece.retracted if edge not in set(gone)]
        counts["edges"] += len(said)
        counts["edges_retracted"] += len(gone)
        counts["refused"] += len(piece.asserted) - len(said) + len(stays)
        is_whole = len(said) == len(piece.asserted) and not stays
        # What could not be said or taken back is tried again by the next run.
        item = replace(
            piece.item,
            fingerprint=piece.item.fingerprint if is_whole else b"",
            edges=[_written(edge) for edge in (*piece.kept, *said, *stays)],
        )
        drafts = [draft_edge(self._relationship(edge), self._arrival) for edge in said]
        drafts += [draft_edge_retraction(self._relationship(edge), self._arrival) for edge in gone]
        await self._record(item, drafts)

    async def _record(self, item: ScrapedItem, drafts: Sequence[Draft]) -> None:
        """The last batch of an asset is the one after which its lineage is remembered."""
        is_something = bool(item.edges or item.fingerprint)
        if not drafts:
            await (self._outbox.items.keep if is_something else self._outbox.items.forget)([item])
            return
        pages = [drafts[start : start + _BATCH] for start in range(0, len(drafts), _BATCH)]
        for page in pages[:-1]:
            await self._outbox.send(self._arrival, page, [])
        if is_something:
            await self._outbox.send(self._arrival, pages[-1], [item])
        else:
            await self._outbox.forget(self._arrival, pages[-1], [item])

    async def _closed(self, edges: Sequence[FoundEdge]) -> set[str]:
        """The ends that may not be written."""
        names = list(dict.fromkeys(end for edge in edges for end in (edge.source, edge.target)))
        ends = [self._ends(name) for name in names]
        writes = [(asset_id, {"asset_type": kind} if kind else {}) for asset_id, kind, _ in ends]
        inside = {asset_id: containers for asset_id, _, containers in ends}
        return {names[at] for at in await self._outbox.refused(writes, inside)}

    async def _hidden(self, edges: Sequence[FoundEdge]) -> set[str]:
        """The lower ends that may not be read: an edge that goes may lift what protects them."""
        names = {self._ends(edge.target)[0]: edge.target for edge in edges}
        if not names:
            return set()
        readable = await self._outbox.guard.readable(self._outbox.call, list(names))
        return {name for asset_id, name in names.items() if asset_id not in readable}

    def _relationship(self, edge: FoundEdge) -> dict[str, Any]:
        return {
            "from_asset_id": self._ends(edge.source)[0],
            "to_asset_id": self._ends(edge.target)[0],
            "relationship_type": RelationshipType.DERIVED_FROM.value,
            "source": self._said_by,
            "transformation": {
                "type": "INDIRECT" if edge.is_indirect else "DIRECT",
                "subtype": edge.subtype,
            },
        }


def _edges_of(item: ScrapedItem | None) -> Edges:
    return {FoundEdge(*edge): None for edge in item.edges or ()} if item else {}


def _written(edge: FoundEdge) -> list[Any]:
    return [edge.source, edge.target, edge.is_indirect, edge.subtype]
