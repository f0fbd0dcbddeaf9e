"""`lily deliveries`: what was told to targets and what came of it, and telling it again."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar
from uuid import UUID

import typer

from lily.apps.commands.acts import note
from lily.apps.commands.databases import with_databases
from lily.apps.commands.options import DataDir, checked_tenant, say

if TYPE_CHECKING:
    from lily.repositories.postgres.delivery_log import DeliveryFilter, DeliveryLog

T = TypeVar("T")
deliveries = typer.Typer(help="Deliveries: messages to targets.", no_args_is_help=True)

Tenant = Annotated[str, typer.Option(help="The tenant whose deliveries these are.")]
Connector = Annotated[UUID | None, typer.Option(help="Only those to this connector.")]


@deliveries.command("list")
def list_deliveries(
    data_dir: DataDir,
    tenant: Tenant,
    status: Annotated[str, typer.Option(help="Only pending, delivered or dead ones.")] = "",
    connector: Connector = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest first.")] = 20,
) -> None:
    """One JSON object per line: to which target, how often tried, what came of it, and the words."""

    async def act(log: DeliveryLog) -> int:
        found = await log.newest(checked_tenant(tenant), _filter(status, connector), None, limit)
        for each in found:
            print(json.dumps(each._asdict() | {"latency_seconds": each.latency}, default=str))
        return len(found)

    if not _run(data_dir, act):
        say("No deliveries.")


@deliveries.command()
def replay(
    data_dir: DataDir,
    tenant: Tenant,
    delivery: Annotated[list[UUID] | None, typer.Argument(help="Ids; without any, all dead ones.")] = None,
    connector: Connector = None,
) -> None:
    """Send finished deliveries again, under their old ids."""

    async def act(log: DeliveryLog) -> int:
        owner = checked_tenant(tenant)
        if delivery:
            return await log.replay(owner, [str(each) for each in delivery])
        sent, before = 0, None
        while found := await log.newest(owner, _filter("dead", connector), before, 500):
            sent += await log.replay(owner, [each.delivery_id for each in found])
            before = found[-1].seq
        return sent

    sent = _run(data_dir, act)
    about = str(delivery[0]) if delivery and len(delivery) == 1 else ""
    note(data_dir, tenant, "replay", ("delivery", about), f"{sent} sent again")
    say(f"Sent {sent} deliver{'y' if sent == 1 else 'ies'} again.")


def _filter(status: str, connector: UUID | None) -> DeliveryFilter:
    from lily.repositories.postgres.delivery_log import DeliveryFilter  # slow to import

    return DeliveryFilter(status=status or None, connector_id=str(connector) if connector else None)


def _run(data_dir: Path, act: Callable[[DeliveryLog], Awaitable[T]]) -> T:
    from lily.repositories.postgres.delivery_log import DeliveryLog  # slow to import

    return with_databases(data_dir, lambda opened: act(DeliveryLog(opened.shared)))
