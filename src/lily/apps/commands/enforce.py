"""`lily enforce`: what protection does in databases: planned, done at once, and how they are."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from lily.apps.commands.acts import note
from lily.apps.commands.databases import with_databases
from lily.apps.commands.options import OPERATOR, DataDir, checked_tenant
from lily.domain.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from lily.apps.enforcement import EnforcementParts

T = TypeVar("T")
enforce = typer.Typer(help="Protection in databases: plan, apply, status.", no_args_is_help=True)

Tenant = Annotated[str, typer.Option(help="Whose databases.")]
Connector = Annotated[str, typer.Option(help="The connector's name or id; the only one when left out.")]
_WAIT_SECONDS = 30.0


@enforce.command()
def plan(data_dir: DataDir, tenant: Tenant, connector: Connector = "") -> None:
    """Print the statements that are missing in a database; they are tried out there and rolled back."""

    async def act(parts: EnforcementParts) -> dict[str, Any]:
        found = await _find(parts, checked_tenant(tenant), connector)
        return await parts.rehearsals().plan(tenant, found)

    planned = _run(data_dir, act)
    for problem in planned["problems"]:
        print(f"-- {problem}")
    for relation in planned["relations"]:
        print(
            f"-- {relation['relation']}: {', '.join(relation['columns']) or 'nothing is protected any more'}"
        )
        print("\n".join(f"{statement};" for statement in relation["statements"]))
        if relation["error"]:
            print(f"-- this fails: {relation['error']}")
    if not planned["relations"]:
        print("-- nothing is missing")


@enforce.command()
def apply(data_dir: DataDir, tenant: Tenant, connector: Connector = "") -> None:
    """Have the enforcer look at a database now, and print what it did."""

    async def act(parts: EnforcementParts) -> dict[str, Any]:
        found = await _find(parts, checked_tenant(tenant), connector)
        asked = await parts.ledger.ask(tenant, found, OPERATOR)
        deadline = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < deadline:
            outcome = await parts.ledger.answered(tenant, asked)
            if outcome is not None:
                return outcome
            await asyncio.sleep(0.1)
        raise Unavailable("the enforcer has not answered; `lily status` tells whether the dispatcher runs")

    note(data_dir, checked_tenant(tenant), "apply", ("enforcement", connector))
    print(json.dumps(_run(data_dir, act), indent=2))


@enforce.command()
def status(data_dir: DataDir, tenant: Tenant) -> None:
    """Print how every database is, as JSON: what is protected, who is excepted, what is in the way."""

    async def act(parts: EnforcementParts) -> list[dict[str, Any]]:
        found = await parts.ledger.targets(checked_tenant(tenant))
        return [
            {"connector_id": each.connector_id, "state": each.state, "checked_at": each.checked_at}
            | dict(each.detail)
            | {"relations": await parts.ledger.relations(tenant, each.connector_id)}
            for each in found
        ]

    print(json.dumps(_run(data_dir, act), indent=2, default=str))


async def _find(parts: EnforcementParts, tenant: str, connector: str) -> str:
    known = [each for each in await parts.connectors.list(tenant) if each.type == "postgres"]
    found = [each for each in known if connector in ("", each.name, each.connector_id)]
    if len(found) != 1:
        names = ", ".join(each.name for each in known) or "none"
        raise NotFound(f"name one database with --connector; {tenant!r} has: {names}")
    return found[0].connector_id


def _run(data_dir: Path, act: Callable[[EnforcementParts], Awaitable[T]]) -> T:
    from lily.apps.enforcement import EnforcementParts  # slow to import

    return with_databases(
        data_dir, lambda opened: act(EnforcementParts(opened.settings, opened.shared, opened.homes))
    )
