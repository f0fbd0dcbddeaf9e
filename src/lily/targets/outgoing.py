"""Notes in the audit what leaves Lily about an asset with tags, before it leaves."""

from __future__ import annotations

from collections import defaultdict
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

    async def __call__(self, shipments: Sequence[Shipment]) -> None:
        """Note one attempt of each; `Unavailable` when that cannot be, and then nothing leaves."""
        of_tenants: dict[str, list[tuple[str, Shipment]]] = defaultdict(list)
        for shipment in shipments:
            if shipment.message.asset_id is not None:
                of_tenants[shipment.queue.tenant_id].append((shipment.message.asset_id, shipment))
        for tenant_id, leaving in of_tenants.items():
            known = await self._assets.traits(tenant_id, [asset_id for asset_id, _ in leaving])
            for asset_id, shipment in leaving:
                if asset_id in known and known[asset_id].traits.tags:
                    self._trail.record(_entry(asset_id, shipment))


def _entry(asset_id: str, shipment: Shipment) -> AuditEntry:
    return AuditEntry(
        tenant_id=shipment.queue.tenant_id,
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
