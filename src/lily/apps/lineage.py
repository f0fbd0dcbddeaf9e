"""The gateway's routes and gRPC services about lineage and tags, wired to their parts."""

from __future__ import annotations

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


class LineageParts:
    """Lineage as every interface walks it, and what is written and told about tags.

    Edges and tags are in the database of the tenant's cell (`homes`), rules in the shared cell's.
    """

    def __init__(self, shared: Database, homes: Database, writer: Writer, most_nodes: int) -> None:
        self._shared = shared
        self._homes = homes
        self._writer = writer
        self._lineage = Lineage(PostgresLineage(homes), writer.guard, most_nodes)

    def routers(self, incidents: Incidents, after: AfterEvent, tokens: PageTokens) -> list[APIRouter]:
        """To be put before the routes about assets, whose paths would take everything."""
        writer, guard, tags = self._writer, self._writer.guard, PostgresTags(self._homes)
        preview = PreviewRoutes(
            tags=tags,
            nodes=self._lineage.edges,
            policies=PostgresPolicies(self._shared),
            rules=PostgresProtectionRules(self._shared),
            columns=PostgresProtectedColumns(self._homes),
            guard=guard,
            after=after,
        )
        return [
            LineageWrites(writer, self._lineage.edges).router(),
            LineageReads(self._lineage, incidents, after, tokens).router(),
            preview.router(),
            ClassificationWrites(writer).router(),
            ClassificationReads(Classification(tags, guard), guard, after).router(),
        ]

    def services(self, calls: Calls) -> dict[str, GenericRpcHandler]:
        """Assets and lineage over gRPC, by the names of their services."""
        entries = Entries(self._writer, "/grpc")
        assets = metadata_service.MetadataService(calls, self._writer.guard, entries.create, entries.change)
        edges = lineage_service.LineageService(
            calls, self._lineage, entries.link, entries.classify, entries.change
        )
        return {metadata_service.SERVICE: assets.handler(), lineage_service.SERVICE: edges.handler()}
