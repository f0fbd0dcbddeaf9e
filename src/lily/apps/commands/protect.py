"""`lily protect`: protection rules listed, made and removed by the operator."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar
from uuid import UUID

import typer

from lily.apps.commands.acts import note
from lily.apps.commands.databases import with_databases
from lily.apps.commands.options import OPERATOR, DataDir, checked_tenant, say
from lily.domain.errors import NotFound

if TYPE_CHECKING:
    from lily.repositories.postgres.announcements import Announcements
    from lily.repositories.postgres.protection_rules import PostgresProtectionRules

T = TypeVar("T")
protect = typer.Typer(help="Protection rules: which tags are masked or denied.", no_args_is_help=True)

Tenant = Annotated[str, typer.Option(help="Whose rules.")]


@protect.command("list")
def list_rules(data_dir: DataDir, tenant: Tenant) -> None:
    """Print the rules, one JSON object per line."""
    from lily.serving.rest.protection_documents import rule_document  # slow to import

    for stored in _run(data_dir, lambda rules, _: rules.list(checked_tenant(tenant))):
        print(json.dumps(rule_document(stored), default=str))


@protect.command()
def add(
    data_dir: DataDir,
    file: Annotated[
        Path, typer.Argument(help="The rule as JSON, as for POST /lily/v1/protection/rules; - reads it.")
    ],
    tenant: Tenant,
) -> None:
    """Make a rule and print its id; when this returns, no gateway shows what it hides."""
    from lily.serving.rest.bodies import parse_model  # slow to import
    from lily.serving.rest.protection_documents import RuleBody

    body = parse_model(RuleBody, (sys.stdin.read() if str(file) == "-" else file.read_text()).encode())
    rule = body.rule()

    async def act(rules: PostgresProtectionRules, announcements: Announcements) -> None:
        await rules.add(checked_tenant(tenant), rule, body.description, OPERATOR)
        await announcements.wait_until_heard()

    _run(data_dir, act)
    note(data_dir, tenant, "create", ("protection_rule", rule.rule_id), f"tag {rule.tag}")
    print(rule.rule_id)


@protect.command()
def remove(
    data_dir: DataDir,
    rule_id: Annotated[UUID, typer.Argument(help="Its id, as `list` prints it.")],
    tenant: Tenant,
) -> None:
    """Remove a rule, and with it what it did to columns."""

    async def act(rules: PostgresProtectionRules, announcements: Announcements) -> None:
        if not await rules.remove(checked_tenant(tenant), str(rule_id)):
            raise NotFound(f"there is no rule {rule_id}; `lily protect list --tenant {tenant}` shows them")
        await announcements.wait_until_heard()

    _run(data_dir, act)
    note(data_dir, tenant, "delete", ("protection_rule", str(rule_id)))
    say(f"Removed {rule_id}.")


def _run(data_dir: Path, act: Callable[[PostgresProtectionRules, Announcements], Awaitable[T]]) -> T:
    from lily.repositories.postgres.announcements import Announcements  # slow to import
    from lily.repositories.postgres.protection_rules import PostgresProtectionRules

    return with_databases(
        data_dir, lambda opened: act(PostgresProtectionRules(opened.shared), Announcements(opened.shared))
    )
