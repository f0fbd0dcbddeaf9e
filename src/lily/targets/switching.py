"""Switches a target off that takes nothing any more, and tells everybody who had something told there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

import structlog

from lily.domain.audit import AuditEntry
from lily.domain.connectors import Connector
from lily.domain.messages import Message
from lily.repositories.postgres.connectors import ConnectorChange
from lily.repositories.postgres.deliveries import DeliveryQueues

#: Who did it, for the audit.
ACTOR = "dispatcher"
_SEVERITY = "SEV-3"

_log = structlog.get_logger(__name__)


class Registry(Protocol):
    """Where connectors are (`PostgresConnectors`)."""

    async def find(self, tenant_id: str, connector_id: str) -> Connector | None: ...

    async def change(
        self, tenant_id: str, connector_id: str, change: ConnectorChange
    ) -> Connector | None: ...


class SwitchOff:
    """`record` writes to the audit."""

    def __init__(
        self, registry: Registry, queues: DeliveryQueues, record: Callable[[AuditEntry], None]
    ) -> None:
        self._registry = registry
        self._queues = queues
        self._record = record
        self._turn = asyncio.Lock()

    async def __call__(self, tenant_id: str, connector_id: str, why: str) -> None:
        """Once: what comes back from several attempts at the same time is told once."""
        async with self._turn:
            connector = await self._registry.find(tenant_id, connector_id)
            if connector is None or connector.is_disabled:
                return
            self._record(_entry(connector, why))
            await self._registry.change(tenant_id, connector_id, ConnectorChange(is_disabled=True))
            told = await self._queues.tell_owners(tenant_id, connector_id, notice(connector, why))
        _log.warning("target_switched_off", tenant=tenant_id, connector=connector_id, reason=why, told=told)


def notice(connector: Connector, why: str) -> Message:
    """What the owners of its subscriptions are told."""
    path = f"/lily/v1/connectors/{connector.tenant_id}/{connector.connector_id}"
    again = f'PATCH {path} with {{"is_disabled": false}}'
    return Message(
        title=f"Nothing is sent to {connector.name!r} any more",
        text=f"The {connector.type} connector was switched off: {why}. When it is mended, switch it on again "
        f"({again}) and replay what is dead (POST /lily/v1/deliveries/replay?connector_id="
        f"{connector.connector_id}).",
        severity=_SEVERITY,
        change="connector.disabled",
        state="",
        reason="you have a subscription that tells this connector",
        group_key=f"connector:{connector.connector_id}",
    )


def _entry(connector: Connector, why: str) -> AuditEntry:
    return AuditEntry(
        tenant_id=connector.tenant_id,
        actor=ACTOR,
        acting_as="",
        address="",
        action="administer",
        resource_kind="connector",
        resource_id=connector.connector_id,
        allowed=True,
        reason=f"switched off: {why}"[:512],
        trace_id="",
        at=datetime.now(UTC),
    )
