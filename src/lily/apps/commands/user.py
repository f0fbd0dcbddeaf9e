"""`lily user`: people who log in at Lily itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from lily.apps.commands.acts import note
from lily.apps.commands.databases import with_databases
from lily.apps.commands.options import DataDir, checked_tenant, say
from lily.domain.errors import NotFound

if TYPE_CHECKING:
    from lily.repositories.postgres.announcements import Announcements
    from lily.repositories.postgres.directory import Directory, UserRow

T = TypeVar("T")
user = typer.Typer(help="People who log in at Lily itself.", no_args_is_help=True)

Tenant = Annotated[str, typer.Option(help="The tenant they belong to.")]
Name = Annotated[str, typer.Argument(help="Their user name.")]
Roles = Annotated[list[str] | None, typer.Option("--role", help="A role; may be given several times.")]


@user.command()
def add(data_dir: DataDir, name: Name, tenant: Tenant, role: Roles = None) -> None:
    """Add somebody; the password is read from standard input."""
    from lily.access.passwords import hash_password  # slow to import
    from lily.repositories.postgres.directory import UserData

    password_hash = hash_password(_read_password())

    async def act(directory: Directory, announcements: Announcements) -> None:
        data = UserData(name, None, True, {}, password_hash, role or [])
        await directory.create_user(checked_tenant(tenant), data)
        await announcements.wait_until_heard()

    _run(data_dir, act)
    note(data_dir, tenant, "create", ("user", name), f"roles: {', '.join(role or []) or 'none'}")
    say(f"Added {name} to {tenant}.")


@user.command("list")
def list_users(data_dir: DataDir, tenant: Tenant) -> None:
    """One JSON object per line."""
    from lily.repositories.postgres.directory import Selection

    async def act(directory: Directory, _announcements: Announcements) -> list[UserRow]:
        return (await directory.users(checked_tenant(tenant), Selection(), 0, 10_000))[1]

    for row in _run(data_dir, act):
        print(json.dumps({"user_id": row.id, "user_name": row.name, "active": row.active}))


@user.command()
def disable(data_dir: DataDir, name: Name, tenant: Tenant) -> None:
    """End somebody's sessions and keys at once and let them log in no more."""
    _change(data_dir, tenant, name, active=False)
    note(data_dir, tenant, "disable", ("user", name))
    say(f"{name} may no longer log in.")


@user.command()
def enable(data_dir: DataDir, name: Name, tenant: Tenant) -> None:
    """Let somebody log in again."""
    _change(data_dir, tenant, name, active=True)
    note(data_dir, tenant, "enable", ("user", name))
    say(f"{name} may log in.")


@user.command()
def password(data_dir: DataDir, name: Name, tenant: Tenant) -> None:
    """Set somebody's password, read from standard input."""
    from lily.access.passwords import hash_password

    _change(data_dir, tenant, name, password_hash=hash_password(_read_password()))
    note(data_dir, tenant, "update", ("user", name), "password")
    say(f"{name} has a new password.")


@user.command()
def roles(data_dir: DataDir, name: Name, tenant: Tenant, role: Roles = None) -> None:
    """Give somebody these roles and no others."""

    async def act(directory: Directory, announcements: Announcements) -> None:
        found = await _find(directory, tenant, name)
        await directory.set_user_roles(tenant, found.id, role or [])
        await announcements.wait_until_heard()

    _run(data_dir, act)
    given = ", ".join(role or []) or "none"
    note(data_dir, tenant, "update", ("user", name), f"roles: {given}")
    say(f"{name} has the roles: {given}.")


def _change(
    data_dir: DataDir, tenant: str, name: str, active: bool | None = None, password_hash: str | None = None
) -> None:
    from lily.repositories.postgres.directory import UserData

    async def act(directory: Directory, announcements: Announcements) -> None:
        row = await _find(directory, tenant, name)
        now_active = row.active if active is None else active
        data = UserData(row.name, row.external_id, now_active, row.document, password_hash)
        await directory.update_user(tenant, row.id, row.version, data)
        await announcements.wait_until_heard()

    _run(data_dir, act)


async def _find(directory: Directory, tenant: str, name: str) -> UserRow:
    from lily.repositories.postgres.directory import Selection

    _, rows = await directory.users(checked_tenant(tenant), Selection(name=name), 0, 1)
    if not rows:
        raise NotFound(
            f"there is no user {name!r} in {tenant}; `lily user list --tenant {tenant}` lists them"
        )
    return rows[0]


def _read_password() -> str:
    return getpass("Password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")


def _run(data_dir: Path, act: Callable[[Directory, Announcements], Awaitable[T]]) -> T:
    from lily.repositories.postgres.announcements import Announcements  # slow to import
    from lily.repositories.postgres.directory import Directory

    return with_databases(
        data_dir, lambda opened: act(Directory(opened.shared), Announcements(opened.shared))
    )
