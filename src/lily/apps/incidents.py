"""The gateway's routes about incidents, wired to their parts: webhooks in, acts, and reads."""

from __future__ import annotations

from fastapi import APIRouter

from lily.access.assets import AssetGuard
from lily.ingest.rest.incidents import IncidentWrites
from lily.ingest.rest.webhooks import WebhookRoutes
from lily.ingest.rest.writing import Writer
from lily.ingest.webhooks.catalogue import webhook_sources
from lily.ingest.webhooks.receivers import Receivers
from lily.repositories.postgres.incidents import PostgresIncidents
from lily.repositories.postgres.lineage import PostgresLineage
from lily.repositories.postgres.pool import Database
from lily.serving.incidents import Incidents
from lily.serving.lineage import Lineage
from lily.serving.rest.after import AfterEvent
from lily.serving.rest.incidents import IncidentReads
from lily.serving.rest.pages import PageTokens


def open_incidents(database: Database, guard: AssetGuard, most_nodes: int) -> Incidents:
    # Walks of its own: what concerns one asset does not wait its turn behind large answers about lineage.
    lineage = Lineage(PostgresLineage(database), guard, most_nodes)
    return Incidents(PostgresIncidents(database), guard, lineage)


def incident_routers(
    incidents: Incidents, writer: Writer, after: AfterEvent, tokens: PageTokens
) -> list[APIRouter]:
    return [
        IncidentWrites(writer, incidents.require_act).router(),
        IncidentReads(incidents, after, tokens).router(),
    ]


def webhook_routers(writer: Writer, receivers: Receivers) -> list[APIRouter]:
    return [WebhookRoutes(writer.recorder, receivers, webhook_sources()).router()]
