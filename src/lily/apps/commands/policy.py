"""`lily policy`: why somebody may or may not do something, and what a change of the rules would do."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from lily.apps.commands.options import DataDir, checked_tenant
from lily.standalone.installations import Installation

if TYPE_CHECKING:
    from lily.repositories.postgres.pool import Database

T = TypeVar("T")
policy = typer.Typer(help="Policies: decisions explained, changes planned.", no_args_is_help=True)

Tenant = Annotated[str, typer.Option(help="Whose rules.")]
Names = Annotated[list[str] | None, typer.Option(help="May be given several times.")]


@policy.command()
def explain(
    data_dir: DataDir,
    asset_id: Annotated[str, typer.Argument(help="The asset.")],
    tenant: Tenant,
    user: Annotated[str, typer.Option(help="Who, as their token names them.")] = "",
    role: Names = None,
    group: Names = None,
    action: Literal["READ", "WRITE", "DELETE", "PURGE", "AUDIT"] = "READ",
    address: Annotated[str, typer.Option(help="From where they would call.")] = "",
    purpose: Annotated[str, typer.Option(help="For which purpose.")] = "",
) -> None:
    """Print the decision, the policies that decided, and those that match and did not."""
    from lily.access.principals import Principal  # slow to import
    from lily.domain.conditions import Circumstances

    who = Principal(checked_tenant(tenant), user, frozenset(role or ()), frozenset(group or ()))
    known = Circumstances(datetime.now(UTC), address, purpose)

    async def act(database: Database) -> dict[str, Any]:
        return await _explain(database, who, action, asset_id, known)

    print(json.dumps(_run(data_dir, act), indent=2))


@policy.command()
def plan(
    data_dir: DataDir,
    file: Annotated[
        Path, typer.Argument(help="The change as JSON, as for POST /lily/v1/access/plan; - reads it.")
    ],
    tenant: Tenant,
) -> None:
    """Print who would gain and lose what, one JSON object per line; nothing is changed."""
    text = sys.stdin.read() if str(file) == "-" else file.read_text()

    async def act(database: Database) -> list[dict[str, Any]]:
        return await _plan(database, checked_tenant(tenant), text)

    for effect in _run(data_dir, act):
        print(json.dumps(effect))


async def _explain(database: Database, who: Any, action: str, asset_id: str, known: Any) -> dict[str, Any]:
    from lily.access.assets import AssetGuard
    from lily.access.books import Book
    from lily.access.decisions import Action, Resource
    from lily.access.explanations import explain as explained
    from lily.repositories.postgres.assets import PostgresAssets
    from lily.repositories.postgres.policies import PostgresPolicies
    from lily.serving.rest.decisions import explanation_document

    book = Book(await PostgresPolicies(database).load_rules(who.tenant_id))
    found = await AssetGuard(PostgresAssets(database)).known_resources(who.tenant_id, [asset_id])
    resource = found.get(asset_id, Resource(who.tenant_id, id=asset_id))
    document = explanation_document(explained(book, who, Action(action), resource, known))
    return {"asset_exists": asset_id in found} | document


async def _plan(database: Database, tenant: str, text: str) -> list[dict[str, Any]]:
    from lily.access.plans import plan as planned
    from lily.repositories.postgres.asset_lists import AssetLists
    from lily.repositories.postgres.policies import PostgresPolicies
    from lily.serving.rest.bodies import parse_model
    from lily.serving.rest.decisions import PlanBody, effect_document

    change = parse_model(PlanBody, text.encode()).change()
    rules = await PostgresPolicies(database).load_rules(tenant)
    effects = await planned(tenant, rules, change, AssetLists(database))
    return [effect_document(effect) for effect in effects]


def _run(data_dir: Path, act: Callable[[Database], Awaitable[T]]) -> T:
    from lily.repositories.postgres.pool import Database
    from lily.settings import load_settings

    async def run() -> T:
        database = Database(load_settings(Installation.at(data_dir).data_dir).database)
        await database.open()
        try:
            return await act(database)
        finally:
            await database.close()

    return asyncio.run(run())
