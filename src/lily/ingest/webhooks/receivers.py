"""Which connector a webhook speaks for, by its signature; secrets are remembered between webhooks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from lily.domain.connectors import Connector
from lily.domain.errors import Forbidden
from lily.ingest.webhooks.refusals import Refusals
from lily.ingest.webhooks.sources import Delivery, Secrets, WebhookSource
from lily.repositories.postgres.announcements import Announcement, Announcements
from lily.repositories.postgres.connectors import ANNOUNCED, PostgresConnectors

#: Bytes to parse or to hash; what is more keeps no other request waiting.
_MOST_AT_ONCE = 32 * 1024
_STRANGE = "the signature is missing or is not that of a connector here; check its secret"


class Receiver(NamedTuple):
    """A connector that takes webhooks, and what they are checked with."""

    connector: Connector
    secrets: Secrets


class Receivers:
    """The connectors that take webhooks, as one process knows them. What is remembered is relied on only
    while no change goes unheard: one that was removed is refused as soon as the removal is answered."""

    def __init__(self, connectors: PostgresConnectors, announcements: Announcements) -> None:
        self._connectors = connectors
        self._announcements = announcements
        self._known: dict[str, Sequence[Connector]] = {}
        self._secrets: dict[str, Secrets] = {}
        self._refusals = Refusals()
        announcements.subscribe(self._hear)

    async def authentic(
        self, source: WebhookSource, delivery: Delivery, connector_id: str | None
    ) -> Connector:
        """The connector this delivery speaks for; `Forbidden` unless its signature says so.

        Without an id the signature alone decides, and it must be that of exactly one connector.
        """
        if len(delivery.body) > _MOST_AT_ONCE:
            await asyncio.to_thread(getattr, delivery, "payload")
        possible = [
            connector
            for connector in await self._of(source.type.name)
            if connector_id in (None, connector.connector_id) and _may_be(connector, delivery)
        ]
        claim = (delivery.address, connector_id or _account(delivery, possible))
        self._refusals.check(claim)
        receivers = [Receiver(each, await self._secrets_of(each)) for each in possible]
        signed = await _signed_by(source, delivery, receivers)
        if not signed:
            self._refusals.note(claim)
            raise Forbidden(_STRANGE)
        if len(signed) > 1:
            raise Forbidden(
                "several connectors have this secret; send to /lily/v1/webhooks/<type>/<connector_id>"
            )
        return signed[0]

    async def find(self, type_name: str, connector_id: str) -> Receiver | None:
        """The connector of this type with this id, unless it is disabled."""
        for connector in await self._of(type_name):
            if connector.connector_id == connector_id:
                return Receiver(connector, await self._secrets_of(connector))
        return None

    async def _of(self, type_name: str) -> Sequence[Connector]:
        known = self._known.get(type_name)
        if known is not None and self._announcements.is_current():
            return known
        generation = self._announcements.generation
        everywhere = await self._connectors.everywhere([type_name])
        found = [connector for connector in everywhere if not connector.is_disabled]
        if self._may_remember(generation):
            self._known[type_name] = found
        return found

    async def _secrets_of(self, connector: Connector) -> Secrets:
        known = self._secrets.get(connector.connector_id)
        if known is not None and self._announcements.is_current():
            return known
        generation = self._announcements.generation
        found = await self._connectors.secrets_of(connector)
        if self._may_remember(generation):
            self._secrets[connector.connector_id] = found
        return found

    def _may_remember(self, generation: int) -> bool:
        """Whether nothing was announced since: what was read is what is."""
        return generation == self._announcements.generation and self._announcements.is_current()

    def _hear(self, announcement: Announcement | None) -> None:
        if announcement is None or announcement.kind == ANNOUNCED:
            self._known.clear()
            self._secrets.clear()


async def _signed_by(
    source: WebhookSource, delivery: Delivery, possible: Sequence[Receiver]
) -> list[Connector]:
    """Those whose signature it has; so much to hash is hashed beside the event loop."""
    if len(delivery.body) * len(possible) > _MOST_AT_ONCE:
        return await asyncio.to_thread(_hash, source, delivery, possible)
    return _hash(source, delivery, possible)


def _hash(source: WebhookSource, delivery: Delivery, possible: Sequence[Receiver]) -> list[Connector]:
    needed = {name for name, is_needed in source.type.secrets.items() if is_needed}
    return [
        connector
        for connector, secrets in possible
        if needed <= set(secrets) and source.is_authentic(delivery, connector.config, secrets)
    ]


def _account(delivery: Delivery, possible: Sequence[Connector]) -> str:
    """The account it names, if a connector is of that one; anybody can name others."""
    account = delivery.payload.get("account")
    named = account.get("id") if isinstance(account, dict) else None
    known = {connector.config.get("account_id") for connector in possible}
    return named if isinstance(named, str) and named in known else ""


def _may_be(connector: Connector, delivery: Delivery) -> bool:
    """Whether the account that sends is the connector's, if the connector says which one that is."""
    expected = connector.config.get("account_id")
    account = delivery.payload.get("account")
    return not expected or (isinstance(account, dict) and account.get("id") == expected)
