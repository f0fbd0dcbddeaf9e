"""`lily connector`: the systems a tenant connects Lily with."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer

from lily.apps.commands.acts import note
from lily.apps.commands.databases import with_databases
from lily.apps.commands.options import OPERATOR, DataDir, checked_tenant, say
from lily.domain.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from lily.apps.databases import CommandDatabases
    from lily.domain.connectors import Connector
    from lily.repositories.postgres.announcements import Announcements
    from lily.repositories.postgres.connectors import PostgresConnectors

T = TypeVar("T")
connector = typer.Typer(help="Connectors: the systems Lily hears from and tells.", no_args_is_help=True)

Tenant = Annotated[str, typer.Option(help="The tenant whose connectors these are.")]


@connector.command()
def add(
    data_dir: DataDir,
    type_: Annotated[str, typer.Argument(metavar="TYPE", help="Such as monte-carlo, slack or postgres.")],
    name: Annotated[str, typer.Argument(help="What it is called in lists.")],
    tenant: Tenant,
    config: Annotated[str, typer.Option(help="Its configuration, a JSON object.")] = "{}",
    secret_file: Annotated[
        Path | None,
        typer.Option(help="A file with its secret, or with a JSON object of secrets by name; - reads it."),
    ] = None,
) -> None:
    """Register a connector; print its id, alone on the last line."""
    from lily.apps.connectors import connector_types  # slow to import
    from lily.repositories.postgres.connectors import NewConnector

    settings, secrets = _object(config, "--config"), _secrets(secret_file)
    kind = connector_types().of(type_)
    kind.check(settings, secrets)
    kind.check_secrets(secrets)
    new = NewConnector(type_, name, settings, secrets, OPERATOR)

    async def act(connectors: PostgresConnectors, announcements: Announcements) -> Connector:
        made = await connectors.add(checked_tenant(tenant), new)
        await announcements.wait_until_heard()
        return made

    made = _run(data_dir, act)
    note(data_dir, tenant, "create", ("connector", made.connector_id), f"{type_} {name}")
    say(f"Added {type_} {name!r}; `lily connector remove` with this id and the tenant removes it.")
    print(made.connector_id)


@connector.command("list")
def list_connectors(data_dir: DataDir, tenant: Tenant) -> None:
    """One JSON object per line, by name; secrets are named, not shown."""

    async def act(connectors: PostgresConnectors, _announcements: Announcements) -> Sequence[Connector]:
        return await connectors.list(checked_tenant(tenant))

    for each in _run(data_dir, act):
        print(json.dumps(asdict(each), default=str))


@connector.command()
def remove(
    data_dir: DataDir,
    connector_id: Annotated[UUID, typer.Argument()],
    tenant: Tenant,
    abandon: Annotated[
        bool, typer.Option(help="Although its database is still protected; that stays as it is.")
    ] = False,
) -> None:
    """Forget a connector and its secrets; when this returns, no gateway uses them."""

    async def act(connectors: PostgresConnectors, announcements: Announcements) -> None:
        if not await connectors.remove(checked_tenant(tenant), str(connector_id), abandon=abandon):
            raise NotFound(f"{tenant} has no connector {connector_id}; `lily connector list` shows them")
        await announcements.wait_until_heard()

    _run(data_dir, act)
    note(data_dir, tenant, "delete", ("connector", str(connector_id)))
    say(f"Removed {connector_id}.")


def _secrets(file: Path | None) -> dict[str, str]:
    if file is None:
        return {}
    text = (sys.stdin.read() if str(file) == "-" else file.read_text()).strip()
    if not text.startswith("{"):
        return {"secret": text}
    named = _object(text, "--secret-file")
    if not all(isinstance(value, str) for value in named.values()):
        raise InvalidInput("--secret-file: every secret of the object must be a text")
    return named


def _object(text: str, option: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise InvalidInput(f"{option}: this is not a JSON object")
    return content


def _run(data_dir: Path, act: Callable[[PostgresConnectors, Announcements], Awaitable[T]]) -> T:
    from lily.apps.connectors import open_connectors  # slow to import
    from lily.repositories.postgres.announcements import Announcements

    def connected(opened: CommandDatabases) -> Awaitable[T]:
        connectors = open_connectors(opened.settings.secrets, opened.shared)
        return act(connectors, Announcements(opened.shared))

    return with_databases(data_dir, connected)
