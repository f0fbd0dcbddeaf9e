"""The routes that write lineage: POST and DELETE under /lily/v1/metadata/lineage."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from lily.access.calls import Call, Writing
from lily.access.requests import check_id, read_body
from lily.access.routers import Route, add_routes
from lily.domain.errors import NotFound
from lily.domain.lineage import EVERYBODY, RelationshipType
from lily.domain.tags import EVERY_TAG
from lily.ingest.assertions import Draft
from lily.ingest.lineage import (
    Relationship,
    RelationshipBatch,
    SqlText,
    draft_edge,
    draft_edge_retraction,
)
from lily.ingest.payloads import Decoder
from lily.ingest.recorder import Receipt
from lily.ingest.rest.bodies import accepts, answers
from lily.ingest.rest.writing import (
    ASSETS,
    ASYNC_APPLIED,
    Write,
    Writer,
    accepted_headers,
    raise_first,
    raise_refusal,
)
from lily.ingest.sql_lineage import DerivedEdge, derive_edges, tables_in
from lily.repositories.postgres.edges import EdgeKey
from lily.repositories.postgres.lineage import Hop, PostgresLineage

LINEAGE = f"{ASSETS}/lineage"
_ONE: Decoder[Relationship] = Decoder(Relationship)
_BATCH: Decoder[RelationshipBatch] = Decoder(RelationshipBatch)
_SQL: Decoder[SqlText] = Decoder(SqlText)
_PAGE = 1000

Fields = dict[str, Any]
ToAsset = Annotated[str | None, Query(description="Only the edges to this asset.")]
OfType = Annotated[str | None, Query(description="Only edges of this relationship_type.")]
OfSource = Annotated[str, Query(description="Take back what this source said; else what everybody said.")]


class LineageWrites:
    def __init__(self, writer: Writer, lineage: PostgresLineage) -> None:
        self._writer = writer
        self._lineage = lineage

    def router(self) -> APIRouter:
        given = answers(s200="LineageAnswer", s202="LineageAnswer")
        bodies = accepts("Relationship", "RelationshipBatch")
        one = LINEAGE + "/{asset_id:path}"
        return add_routes(
            APIRouter(tags=["lineage"]),
            Route(LINEAGE, "POST", self.post, "postLineage", given, bodies),
            Route(LINEAGE + "/sql", "POST", self.post_sql, "postSqlLineage", given, accepts("SqlText")),
            Route(one, "DELETE", self.delete, "deleteLineage", given, accepts()),
        )

    async def post(self, request: Request, call: Writing) -> Response:
        """Assert one edge, or up to 1,000 as `{"relationships": […]}`; ends need not exist yet."""
        body = await read_body(request)
        return await self._assert(self._writer.begin(request, call, body), _decode(body))

    async def post_sql(self, request: Request, call: Writing) -> Response:
        """Assert the table and column edges of SQL statements that write tables."""
        body = await read_body(request)
        said = _SQL.decode(body)
        text, dialect, schema = said["sql"], said.get("dialect", ""), said.get("default_schema", "")
        tables = await asyncio.to_thread(tables_in, text, dialect, schema)
        known = await self._readable(call, await self._lineage.columns(call.tenant_id, tables))
        schemas = {table: list(of) for table, of in known.items()}
        derived = await asyncio.to_thread(derive_edges, text, dialect, schema, schemas)
        relationships = [_derived(edge, known, said.get("source") or "sql") for edge in derived]
        return await self._assert(self._writer.begin(request, call, body), relationships, show=True)

    async def _readable(self, call: Call, known: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        """The tables and columns the caller may read: an answer must not tell of others."""
        ids = [*known, *(column for of in known.values() for column in of.values())]
        readable = await self._writer.guard.readable(call, ids)
        return {
            table: {name: column for name, column in of.items() if column in readable}
            for table, of in known.items()
            if table in readable
        }

    async def _assert(self, write: Write, relationships: list[Fields], *, show: bool = False) -> Response:
        drafts = [draft_edge(relationship, write.arrival) for relationship in relationships]
        ends = {r[name]: None for r in relationships for name in ("from_asset_id", "to_asset_id")}
        raise_first(await self._writer.authorise(write, [(check_id(end), {}) for end in ends]))
        await require_flow(self._writer, write, relationships)
        if not drafts:  # a run that reports nothing changes nothing
            return JSONResponse({"accepted": 0}, 200)
        content: Fields = {"accepted": len(drafts)} | ({"relationships": relationships} if show else {})
        return answer(await record(self._writer, write, drafts), content)

    async def delete(
        self,
        request: Request,
        call: Writing,
        asset_id: str,
        to_asset_id: ToAsset = None,
        relationship_type: OfType = None,
        source: OfSource = EVERYBODY,
    ) -> Response:
        """Retract the edges of an asset: all of them, or those to one asset, of one type."""
        write = self._writer.begin(request, call)
        edges = [
            edge
            for edge in await self._edges_of(write, check_id(asset_id), to_asset_id)
            if relationship_type in (None, edge.relationship_type)
        ]
        if not edges:
            raise NotFound(f"there is no such edge of {asset_id!r}")
        ends = {end: None for edge in edges for end in (edge.from_id, edge.to_id)}
        raise_first(await self._writer.authorise(write, [(end, {}) for end in ends]))
        await self._writer.require_sight(write, [edge.to_id for edge in edges])
        protections = self._writer.guard.protections
        await protections.require_edges(call, {edge: [EVERY_TAG] for edge in edges})
        contained = [edge.to_id for edge in edges if edge.relationship_type == RelationshipType.CONTAINS]
        await protections.require_contained(call, contained)
        drafts = [draft_edge_retraction(_named(edge, source), write.arrival) for edge in edges]
        return answer(await record(self._writer, write, drafts), {"retracted": len(edges)})

    async def _edges_of(self, write: Write, asset_id: str, to_asset_id: str | None) -> list[EdgeKey]:
        tenant_id = write.arrival.tenant_id
        below = await self._lineage.step(tenant_id, Hop([asset_id], upstream=False))
        if to_asset_id is not None:
            return [edge for edge in below if edge.to_id == to_asset_id]
        above = await self._lineage.step(tenant_id, Hop([asset_id], upstream=True))
        return list(dict.fromkeys((*below, *above)))


async def require_flow(writer: Writer, write: Write, relationships: Sequence[Fields]) -> None:
    """Return when the caller may stop tags on those of these edges that do."""
    stopped = {_key(each): stopping for each in relationships if (stopping := _stopped_tags(each))}
    await writer.require_sight(write, [to_id for _, to_id, _ in stopped])
    await writer.guard.protections.require_edges(write.call, stopped)


def _stopped_tags(relationship: Fields) -> list[str]:
    """The tags an edge may not let through: masking and an indirect way may stop all of them."""
    transformation = relationship.get("transformation") or {}
    if transformation.get("masking") or transformation.get("type") == "INDIRECT":
        return [EVERY_TAG]
    return list(relationship.get("blocked_tags") or ())


def _key(relationship: Fields) -> tuple[str, str, str]:
    return relationship["from_asset_id"], relationship["to_asset_id"], relationship["relationship_type"]


async def record(writer: Writer, write: Write, drafts: list[Draft]) -> Receipt:
    """Record any number of events, a batch at a time; the receipt is that of the last batch."""
    for start in range(0, len(drafts), _PAGE):
        receipt = await writer.recorder.record(write.submission(drafts[start : start + _PAGE]))
        raise_refusal(receipt)
    return receipt


def answer(receipt: Receipt, content: Fields) -> Response:
    body = content | {"event_id": str(receipt.event_id)}
    if receipt.settlement is None:
        return JSONResponse(body, 202, accepted_headers(receipt) | ASYNC_APPLIED)
    return JSONResponse(body, 200, accepted_headers(receipt))


def _named(edge: EdgeKey, source: str) -> Fields:
    return {
        "from_asset_id": edge.from_id,
        "to_asset_id": edge.to_id,
        "relationship_type": edge.relationship_type,
        "source": source,
    }


def _derived(edge: DerivedEdge, known: dict[str, dict[str, str]], source: str) -> Fields:
    return {
        "from_asset_id": _column_id(edge.source, known),
        "to_asset_id": _column_id(edge.target, known),
        "relationship_type": RelationshipType.DERIVED_FROM.value,
        "transformation": {"type": "INDIRECT" if edge.is_indirect else "DIRECT", "subtype": edge.subtype},
        "source": source,
    }


def _column_id(name: str, known: dict[str, dict[str, str]]) -> str:
    """The catalog's id of a column it knows; else the name itself."""
    table, _, column = name.rpartition(".")
    return known.get(table, {}).get(column, name)


def _decode(body: bytes) -> list[Fields]:
    if b'"relationships"' in body:
        batch: list[Fields] = _BATCH.decode(body)["relationships"]
        return batch
    return [_ONE.decode(body)]
