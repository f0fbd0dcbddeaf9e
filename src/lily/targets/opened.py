"""The targets a dispatcher sends to: made from their connectors on first use, forgotten when those change."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

import structlog

from lily.domain.connectors import Connector
from lily.domain.deliveries import Outcome, Receipt, Shipment
from lily.domain.errors import LilyError, Unavailable
from lily.targets.egress import Egress
from lily.targets.frame import Opening, Target, TargetType

#: Longer than any attempt may take.
_LINGER_SECONDS = 60.0

_log = structlog.get_logger(__name__)


class Registry(Protocol):
    """Where connectors are (`PostgresConnectors`)."""

    async def find(self, tenant_id: str, connector_id: str) -> Connector | None: ...

    async def secrets_of(self, connector: Connector) -> dict[str, str]: ...


class Nowhere:
    """What stands for a connector that cannot be sent to: it refuses everything, with the reason."""

    keeps_groups = False

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def send(self, _shipment: Shipment) -> Receipt:
        return Receipt(Outcome.REFUSED, "", detail=self._reason)

    async def close(self) -> None:
        return None


class OpenTargets:
    def __init__(self, registry: Registry, types: Mapping[str, TargetType], egress: Egress) -> None:
        self._registry = registry
        self._types = types
        self._egress = egress
        self._open: dict[tuple[str, str], Target] = {}
        self._told = 0
        self._closing: set[asyncio.Task[None]] = set()

    async def of(self, tenant_id: str, connector_id: str) -> Target:
        """The target; one that refuses everything when there is none, or when it is disabled."""
        key = (tenant_id, connector_id)
        while key not in self._open:
            told = self._told
            target = await self._make(tenant_id, connector_id)
            if told == self._told:  # else it may have changed while we asked
                self._open[key] = target
            else:
                await target.close()
        return self._open[key]

    def forget(self, tenant_id: str | None = None, connector_id: str = "") -> None:
        """The connector has changed; without one, any may have."""
        self._told += 1
        keys = [(tenant_id, connector_id)] if tenant_id is not None else list(self._open)
        for key in keys:
            if target := self._open.pop(key, None):
                # What is on its way is not cut off.
                task = asyncio.create_task(_close_later(target))
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        waiting = list(self._closing)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for target in self._open.values():
            await target.close()
        self._egress.close()

    async def _make(self, tenant_id: str, connector_id: str) -> Target:
        connector = await self._registry.find(tenant_id, connector_id)
        if connector is None:
            return Nowhere(f"there is no connector {connector_id} any more")
        if connector.is_disabled:
            return Nowhere(f"the connector {connector.name!r} is disabled; enable it, then replay")
        if connector.type not in self._types:
            known = ", ".join(sorted(self._types))
            return Nowhere(f"nothing can be sent to a connector of type {connector.type!r}; only to: {known}")
        try:
            secrets = await self._registry.secrets_of(connector)
            return self._types[connector.type].open(Opening(connector, secrets, self._egress))
        except Unavailable:
            raise
        except (LilyError, KeyError) as error:
            _log.warning("target_unusable", connector=connector_id, error=str(error))
            detail = error.message if isinstance(error, LilyError) else f"its setting {error} is missing"
            return Nowhere(f"the connector {connector.name!r} cannot be used: {detail}")


async def _close_later(target: Target) -> None:
    try:
        await asyncio.sleep(_LINGER_SECONDS)
    finally:
        await target.close()
