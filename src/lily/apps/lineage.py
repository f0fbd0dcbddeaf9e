"""The gateway's routes and gRPC services about lineage and tags, wired to their parts."""

from __future__ import annotations

from fastapi import APIRouter
from grpc import GenericRpcHandler

from lily.ingest.entries import Entries
from lily.ingest.rest.classification import ClassificationWrites
from lily.ingest.rest.lineage import LineageWrites
from lily.ingest.rest.writing import Writer
from lily.repositories.postgres.lineage import PostgresLineage
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.tags import PostgresTags
from lily.serving.classification import Classification
from lily.serving.grpc import lineage_service, metadata_service
from lily.serving.grpc.calls import Calls
from lily.serving.lineage import Lineage
from lily.serving.rest.after import AfterEvent
from lily.serving.rest.classification import ClassificationReads
from lily.serving.rest.lineage import LineageReads
from lily.serving.rest.pages import PageTokens


def lineage_routers(
    database: Database, writer: Writer, after: AfterEvent, tokens: PageTokens
) -> list[APIRouter]:
    """To be put before the routes about assets, whose paths would take everything."""
    guard, lineage = writer.guard, PostgresLineage(database)
    classification = Classification(PostgresTags(database), guard)
    return [
        LineageWrites(writer, lineage).router(),
        LineageReads(Lineage(lineage, guard), after, tokens).router(),
        ClassificationWrites(writer).router(),
        ClassificationReads(classification, guard, after).router(),
    ]


def lineage_services(database: Database, writer: Writer, calls: Calls) -> dict[str, GenericRpcHandler]:
    """Assets and lineage over gRPC, by the names of their services."""
    entries, guard = Entries(writer, "/grpc"), writer.guard
    assets = metadata_service.MetadataService(calls, guard, entries.create, entries.change)
    lineage = Lineage(PostgresLineage(database), guard)
    edges = lineage_service.LineageService(calls, lineage, entries.link, entries.classify)
    return {metadata_service.SERVICE: assets.handler(), lineage_service.SERVICE: edges.handler()}
