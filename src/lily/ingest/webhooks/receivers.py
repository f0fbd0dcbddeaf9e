"""Which connector a webhook speaks for, by its signature; secrets are remembered between webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lily.domain.connectors import Connector
from lily.domain.errors import Forbidden
from lily.ingest.webhooks.sources import Delivery, Secrets, WebhookSource
from lily.repositories.postgres.announcements import Announcement, Announcements
from lily.repositories.postgres.connectors import ANNOUNCED, PostgresConnectors


@dataclass(frozen=True)
class Receiver:
    """A connector that takes webhooks, and what they are checked with."""

    connector: Connector
    secrets: Secrets


class Receivers:
    """The receivers of one process. What is remembered is relied on only while no change goes unheard: a
    connector that was removed is refused as soon as the removal is answered."""

    def __init__(self, connectors: PostgresConnectors, announcements: Announcements) -> None:
        self._connectors = connectors
        self._announcements = announcements
        self._known: dict[str, list[Receiver]] = {}
        announcements.subscribe(self._hear)

    async def authentic(
        self, source: WebhookSource, delivery: Delivery, connector_id: str | None
    ) -> Connector:
        """The connector this delivery speaks for; `Forbidden` unless its signature says so.

        Without an id the signature alone decides, and it must be that of exactly one connector.
        """
        receivers = [
            receiver
            for receiver in await self._of(source.type.name)
            if connector_id in (None, receiver.connector.connector_id) and _may_be(receiver, delivery)
        ]
        signed = [
            receiver.connector
            for receiver in receivers
            if source.is_authentic(delivery, receiver.connector.config, receiver.secrets)
        ]
        if not signed:
            raise Forbidden("the signature is missing or is not that of a connector here; check its secret")
        if len(signed) > 1:
            raise Forbidden(
                "several connectors have this secret; send to /lily/v1/webhooks/<type>/<connector_id>"
            )
        return signed[0]

    async def _of(self, type_name: str) -> Sequence[Receiver]:
        known = self._known.get(type_name)
        if known is not None and self._announcements.is_current():
            return known
        generation = self._announcements.generation
        found = [
            Receiver(connector, await self._connectors.secrets_of(connector))
            for connector in await self._connectors.everywhere([type_name])
            if not connector.is_disabled
        ]
        if generation == self._announcements.generation and self._announcements.is_current():
            self._known[type_name] = found
        return found

    def _hear(self, announcement: Announcement | None) -> None:
        if announcement is None or announcement.kind == ANNOUNCED:
            self._known.clear()


def _may_be(receiver: Receiver, delivery: Delivery) -> bool:
    """Whether the account that sends is the connector's, if the connector says which one that is."""
    expected = receiver.connector.config.get("account_id")
    account = delivery.payload.get("account")
    return not expected or (isinstance(account, dict) and account.get("id") == expected)
