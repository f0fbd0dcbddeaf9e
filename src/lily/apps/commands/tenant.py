"""`lily tenant`: who the tenants are, what each has for itself, what it may use, and where it lives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lily.apps.commands.acts import note
from lily.apps.commands.options import DataDir, checked_tenant, say, settings_of
from lily.domain.errors import InvalidInput, NotFound
from lily.domain.tenants import SHARED

if TYPE_CHECKING:
    from lily.apps.tenants import Tenancy

tenant = typer.Typer(help="Tenants, their cells and quotas.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The tenant.")]
Limit = Annotated[int | None, typer.Option(min=-1, help="0 is without limit, -1 the installation's default.")]


@tenant.command()
def create(
    data_dir: DataDir,
    name: Name,
    isolation: Annotated[
        str, typer.Option(help="shared; or dedicated: an own database, topics, lake namespace and queries.")
    ] = "shared",
    cell: Annotated[str, typer.Option(help="The dedicated cell; named like the tenant by default.")] = "",
) -> None:
    """Make a tenant. One that is not made comes into being in the shared cell when it is first heard of."""
    where = _cell(name, isolation, cell)
    _tenancy(data_dir).create(checked_tenant(name), where)
    note(data_dir, name, "create", ("tenant", name), f"in the cell {where}")
    say(f"{name} is there; `lily token --tenant {name} --role owner` prints a token.")


@tenant.command("list")
def list_tenants(data_dir: DataDir) -> None:
    """The isolation matrix: what is each tenant's own and what it shares, its limits and what it has."""
    rows = _tenancy(data_dir).matrix()
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


@tenant.command()
def config(
    data_dir: DataDir,
    name: Name,
    requests_per_second: Limit = None,
    events_per_second: Limit = None,
    max_assets: Limit = None,
    max_bytes: Limit = None,
) -> None:
    """Set limits, in force at once; without any, print what is in force."""
    import json

    given = {
        "requests_per_second": requests_per_second,
        "events_per_second": events_per_second,
        "max_assets": max_assets,
        "max_bytes": max_bytes,
    }
    tenancy = _tenancy(data_dir)
    limits = {limit: value for limit, value in given.items() if value is not None}
    tenancy.limit(checked_tenant(name), limits)
    if limits:
        note(data_dir, name, "update", ("tenant", name), json.dumps(limits))
    print(json.dumps(tenancy.describe(name), default=str))


@tenant.command()
def move(
    data_dir: DataDir,
    name: Name,
    to: Annotated[str, typer.Option(help="shared, dedicated, or the name of a cell.")],
) -> None:
    """Move a tenant to another cell while it is served; nothing is lost.

    Writes are asked to come back for a moment. What was said before stays on the old cell's log until its
    retention ends, and in its part of the lake.
    """
    cell = _cell(name, to if to in ("shared", "dedicated") else "dedicated", "" if to == "dedicated" else to)
    seconds = _tenancy(data_dir).move(checked_tenant(name), cell, say)
    note(data_dir, name, "move", ("tenant", name), f"to the cell {cell}")
    say(f"Writes were asked to come back for {seconds:.1f} s.")


@tenant.command()
def tidy(data_dir: DataDir) -> None:
    """Remove what is left where no tenant lives: cells without tenants, and rows of tenants that moved away.

    A move does so itself; what `lily replay --reset` brought back in the shared cell is left for this.
    """
    _tenancy(data_dir).tidy()
    say("Nothing is left where no tenant lives.")


@tenant.command()
def delete(
    data_dir: DataDir,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove a tenant and all it has in PostgreSQL; a dedicated cell goes with its last tenant.

    The audit stays. What it said is on the shared cell's log until its retention ends, and in the lake.
    """
    if not yes and not typer.confirm(f"Remove {name} and everything it has?"):
        raise InvalidInput("nothing was removed")
    if not _tenancy(data_dir).delete(checked_tenant(name)):
        raise NotFound(f"there is no tenant {name!r}; `lily tenant list` shows those there are")
    note(data_dir, name, "delete", ("tenant", name))
    say(f"{name} is removed.")


def _cell(name: str, isolation: str, cell: str) -> str:
    if isolation not in ("shared", "dedicated"):
        raise InvalidInput(f"unknown isolation {isolation!r}; known: shared, dedicated")
    if isolation == "shared":
        return SHARED
    return cell or name.lower().replace("_", "-").replace(".", "-")


def _tenancy(data_dir: Path) -> Tenancy:
    from lily.apps.tenants import Tenancy  # slow to import

    return Tenancy(settings_of(data_dir))
