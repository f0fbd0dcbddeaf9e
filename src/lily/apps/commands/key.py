"""`lily key`: API keys for machines."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar
from uuid import UUID

import typer

from lily.apps.commands.acts import note
from lily.apps.commands.databases import with_databases
from lily.apps.commands.options import OPERATOR, DataDir, checked_role, checked_tenant, say
from lily.domain.errors import AlreadyExists

if TYPE_CHECKING:
    from lily.repositories.postgres.announcements import Announcements
    from lily.repositories.postgres.api_keys import ApiKey, ApiKeys

T = TypeVar("T")
DAY = 24 * 3600
key = typer.Typer(help="API keys for machines.", no_args_is_help=True)

Tenant = Annotated[str, typer.Option(help="The tenant the key acts for.")]


@key.command()
def create(
    data_dir: DataDir,
    name: Annotated[str, typer.Argument(help="What the key is called in lists and in the audit.")],
    tenant: Tenant,
    role: Annotated[list[str], typer.Option(help="A role; may be given several times.")],
    scope: Annotated[
        list[str] | None, typer.Option(help="Narrows the key; may be given several times.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=366, help="How long it is valid.")] = 90,
) -> None:
    """Print a new key, alone on the last line; it is shown this once."""
    from lily.access.scopes import check_scopes  # slow to import
    from lily.access.secrets import API_KEY, Secret, new_value
    from lily.repositories.postgres.api_keys import NewKey

    value, scopes = new_value(), check_scopes(scope) if scope else None
    new = NewKey(name, OPERATOR, [checked_role(each) for each in role], scopes, days * DAY)

    async def act(keys: ApiKeys, _announcements: Announcements) -> ApiKey | None:
        return await keys.create(checked_tenant(tenant), new, Secret(API_KEY, "", "", value).hash)

    made = _run(data_dir, act)
    if made is None:
        raise AlreadyExists(f"there is a key {name!r} already; revoke it or take another name")
    note(data_dir, tenant, "create", ("api_key", made.key_id), f"{name}: {', '.join(made.roles)}")
    say(f"Made the key {made.key_id}; revoke it with `lily key revoke {made.key_id} --tenant {tenant}`.")
    print(Secret(API_KEY, tenant, made.key_id, value).text)


@key.command("list")
def list_keys(data_dir: DataDir, tenant: Tenant) -> None:
    """One JSON object per line, the newest first."""

    async def act(keys: ApiKeys, _announcements: Announcements) -> Sequence[ApiKey]:
        return await keys.list(checked_tenant(tenant), None)

    for each in _run(data_dir, act):
        print(json.dumps(asdict(each), default=str))


@key.command()
def revoke(data_dir: DataDir, key_id: Annotated[UUID, typer.Argument()], tenant: Tenant) -> None:
    """End a key; when this returns, it is refused everywhere."""

    async def act(keys: ApiKeys, announcements: Announcements) -> None:
        await keys.revoke(checked_tenant(tenant), str(key_id))
        await announcements.wait_until_heard()

    note(data_dir, checked_tenant(tenant), "revoke", ("api_key", str(key_id)))
    _run(data_dir, act)
    say(f"Revoked {key_id}.")


def _run(data_dir: Path, act: Callable[[ApiKeys, Announcements], Awaitable[T]]) -> T:
    from lily.repositories.postgres.announcements import Announcements  # slow to import
    from lily.repositories.postgres.api_keys import ApiKeys

    return with_databases(data_dir, lambda opened: act(ApiKeys(opened.shared), Announcements(opened.shared)))
