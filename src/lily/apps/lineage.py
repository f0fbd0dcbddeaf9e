"""The gateway's routes and gRPC services about lineage and tags, wired to their parts."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter
from grpc import GenericRpcHandler

from lily.ingest.entries import Entries
from lily.ingest.rest.classification import ClassificationWrites
from lily.ingest.rest.lineage import LineageWrites
from lily.ingest.rest.writing import Writer
from lily.repositories.postgres.lineage import PostgresLineage
from lily.repositories.postgres.policies import PostgresPolicies
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.protected_columns import PostgresProtectedColumns
from lily.repositories.postgres.protection_rules import PostgresProtectionRules
from lily.repositories.postgres.tags import PostgresTags
from lily.serving.classification import Classification
from lily.serving.grpc import lineage_service, metadata_service
from lily.serving.grpc.calls import Calls
from lily.serving.incidents import Incidents
from lily.serving.lineage import Lineage
from lily.serving.rest.after import AfterEvent
from lily.serving.rest.classification import ClassificationReads
from lily.serving.rest.lineage import LineageReads
from lily.serving.rest.pages import PageTokens
from lily.serving.rest.previews import PreviewRoutes


@dataclass(frozen=True)
class Reading:
    """How answers wait, go on in pages, and end."""

    after: AfterEvent
    tokens: PageTokens
    most_nodes: int


def lineage_routers(
    shared: Database, homes: Database, writer: Writer, incidents: Incidents, reading: Reading
) -> list[APIRouter]:
    """To be put before the routes about assets, whose paths would take everything."""
    guard, lineage, tags, after = writer.guard, PostgresLineage(homes), PostgresTags(homes), reading.after
    preview = PreviewRoutes(
        tags=tags,
        nodes=lineage,
        policies=PostgresPolicies(shared),
        rules=PostgresProtectionRules(shared),
        columns=PostgresProtectedColumns(homes),
        guard=guard,
        after=after,
    )
    return [
        LineageWrites(writer, lineage).router(),
        LineageReads(Lineage(lineage, guard, reading.most_nodes), incidents, after, reading.tokens).router(),
        preview.router(),
        ClassificationWrites(writer).router(),
        ClassificationReads(Classification(tags, guard), guard, after).router(),
    ]


def lineage_services(database: Database, writer: Writer, calls: Calls) -> dict[str, GenericRpcHandler]:
    """Assets and lineage over gRPC, by the names of their services."""
    entries, guard = Entries(writer, "/grpc"), writer.guard
    assets = metadata_service.MetadataService(calls, guard, entries.create, entries.change)
    lineage = Lineage(PostgresLineage(database), guard)
    edges = lineage_service.LineageService(calls, lineage, entries.link, entries.classify, entries.change)
    return {metadata_service.SERVICE: assets.handler(), lineage_service.SERVICE: edges.handler()}
