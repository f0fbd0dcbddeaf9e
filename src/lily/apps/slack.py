"""The gateway's route for Slack's buttons, wired to its parts."""

from __future__ import annotations

from fastapi import APIRouter

from lily.ingest.rest.slack import SlackParts, SlackRoutes
from lily.ingest.rest.writing import Writer
from lily.ingest.webhooks.receivers import Receiver, Receivers
from lily.repositories.postgres.identities import Identities
from lily.repositories.postgres.notifications import PostgresNotifications
from lily.repositories.postgres.pool import Database
from lily.serving.incidents import Incidents
from lily.settings import TargetSettings
from lily.targets.egress import AllowList, Egress
from lily.targets.slack_people import SlackPeople
from lily.targets.slack_replies import SlackReplies


def slack_router(
    settings: TargetSettings, database: Database, writer: Writer, receivers: Receivers, incidents: Incidents
) -> APIRouter:
    """To be put before the routes of other webhooks."""
    egress = Egress(AllowList(settings.allow))
    people = SlackPeople(egress)

    async def email_of(receiver: Receiver, user_id: str) -> str:
        return await people.email_of(receiver.connector, receiver.secrets, user_id)

    parts = SlackParts(
        writer.recorder,
        receivers,
        Identities(database),
        PostgresNotifications(database),
        incidents.require_act,
        email_of,
        SlackReplies(egress).say,
    )
    return SlackRoutes(parts).router()
