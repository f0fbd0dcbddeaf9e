"""`lily policy`: why somebody may or may not do something, and what a change of the rules would do."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lily.apps.commands.databases import with_databases
from lily.apps.commands.options import DataDir, checked_tenant

if TYPE_CHECKING:
    from lily.apps.databases import CommandDatabases

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

    async def act(databases: CommandDatabases) -> dict[str, Any]:
        return await _explain(databases, who, action, asset_id, known)

    print(json.dumps(with_databases(data_dir, act), indent=2))


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

    async def act(databases: CommandDatabases) -> list[dict[str, Any]]:
        return await _plan(databases, checked_tenant(tenant), text)

    for effect in with_databases(data_dir, act):
        print(json.dumps(effect))


async def _explain(
    databases: CommandDatabases, told: Any, action: str, asset_id: str, known: Any
) -> dict[str, Any]:
    from lily.access.books import Book
    from lily.access.decisions import Action, Resource
    from lily.access.explanations import explain as explained
    from lily.access.people import People
    from lily.apps.guards import guard_assets
    from lily.repositories.postgres.policies import PostgresPolicies
    from lily.serving.rest.decisions import explanation_document

    book = Book(await PostgresPolicies(databases.shared).load_rules(told.tenant_id))
    who, active = await People(databases.shared).complete(told)
    found = await guard_assets(databases.shared, databases.homes).known_resources(who.tenant_id, [asset_id])
    resource = found.get(asset_id, Resource(who.tenant_id, id=asset_id))
    explanation = explained(book, who, Action(action), resource, known)
    return {"asset_exists": asset_id in found} | explanation_document(explanation, who, active)


async def _plan(databases: CommandDatabases, tenant: str, text: str) -> list[dict[str, Any]]:
    from lily.access.people import People
    from lily.access.plans import plan as planned
    from lily.repositories.postgres.asset_lists import AssetLists
    from lily.repositories.postgres.policies import PostgresPolicies
    from lily.serving.rest.bodies import parse_model
    from lily.serving.rest.decisions import PlanBody, effect_document

    change = parse_model(PlanBody, text.encode()).change()
    rules = await PostgresPolicies(databases.shared).load_rules(tenant)
    known = await People(databases.shared).known(tenant)
    effects = await planned(tenant, rules, change, AssetLists(databases.homes), known)
    return [effect_document(effect) for effect in effects]
