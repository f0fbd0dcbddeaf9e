"""Notes in the audit what leaves Lily about an asset with tags, before it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol

from lily.access.audit import AuditEntry, AuditTrail
from lily.access.decisions import ASSET
from lily.domain.deliveries import Shipment
from lily.repositories.postgres.assets import KnownAsset


class Assets(Protocol):
    """Knows what an asset is like (`PostgresAssets`)."""

    async def traits(self, tenant_id: str, asset_ids: Sequence[str]) -> Mapping[str, KnownAsset]: ...


class Outgoing:
    def __init__(self, assets: Assets, trail: AuditTrail) -> None:
        self._assets = assets
        self._trail = trail

    async def __call__(self, shipment: Shipment) -> None:
        """Note one attempt; `Unavailable` when that cannot be, and then nothing leaves."""
        tenant_id, asset_id = shipment.queue.tenant_id, shipment.message.asset_id
        if asset_id is None:
            return
        known = (await self._assets.traits(tenant_id, [asset_id])).get(asset_id)
        if known is None or not known.traits.tags:
            return
        self._trail.record(
            AuditEntry(
                tenant_id=tenant_id,
                actor=f"subscription:{shipment.subscription_id}",
                acting_as="",
                address=f"connector:{shipment.queue.connector_id}",
                action="deliver",
                resource_kind=ASSET,
                resource_id=asset_id,
                allowed=True,
                reason=f"delivery {shipment.delivery_id}, attempt {shipment.attempt}",
                trace_id="",
                at=datetime.now(UTC),
            )
        )
