"""`lily lineage`: what an operator does with lineage; `rebuild` recomputes all effective tags in Spark."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from lily.apps.commands.options import DataDir, checked_tenant, say
from lily.domain.errors import NotFound
from lily.standalone.installations import Installation
from lily.standalone.states import running_state

if TYPE_CHECKING:
    from lily.settings import Settings

lineage = typer.Typer(help="Lineage: effective tags recomputed from scratch.", no_args_is_help=True)


@lineage.callback()
def commands() -> None:
    """More commands may come: without this the only one would need no name."""


@lineage.command()
def rebuild(
    data_dir: DataDir,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 on a difference.")
    ] = False,
    tenant: Annotated[str, typer.Option(help="Only this tenant's.")] = "",
) -> None:
    """Recompute edges and effective tags from all that was said; report what differs, and put it right."""
    from lily.pipeline.rebuild import check as compare  # slow to import
    from lily.pipeline.rebuild import repair
    from lily.pipeline.session import start_session
    from lily.settings import load_settings
    from lily.standalone.services import start_services

    installation = Installation.at(data_dir)
    with ExitStack() as running:
        if not running_state(installation):
            running.callback(start_services(installation.data_dir).stop)
        settings = load_settings(installation.data_dir)
        cells = _cells(settings, checked_tenant(tenant) if tenant else "")
        session = start_session(settings)
        running.callback(session.stop)
        is_right = True
        for name, cell in cells.items():
            url = cell.database.url.get_secret_value()
            report = compare(session, url, tenant) if check else repair(session, url, tenant, say)
            is_right = is_right and report.is_right
            found = {"cell": name, "edges": report.edges, "effective_tags": report.facts}
            print(json.dumps(found | {"differences": report.differences}))
            for example in report.examples:
                print(json.dumps(example, default=str))
    say(_verdict(is_right, check))
    if check and not is_right:
        raise typer.Exit(1)


def _verdict(is_right: bool, check: bool) -> str:
    if is_right:
        return "No difference: what is stored is what follows from all that was said."
    if check:
        return "There are differences; `./lily lineage rebuild` puts them right."
    return "There were differences; they have been put right."


def _cells(settings: Settings, tenant: str) -> dict[str, Settings]:
    """The settings of every cell, or of the one a tenant lives in."""
    from lily.domain.tenants import SHARED
    from lily.repositories.postgres.tenant_admin import TenantAdmin
    from lily.tenancy.cells import cell_settings

    admin = TenantAdmin(settings.database.url.get_secret_value())
    cells = {SHARED: settings} | {
        name: cell_settings(settings, cell) for name, cell in admin.cells().items() if name != SHARED
    }
    if not tenant:
        return cells
    found = admin.find(tenant)
    if found is None:
        raise NotFound(f"there is no tenant {tenant!r}; `./lily tenant list` shows all", tenant=tenant)
    return {found.cell: cells[found.cell]}
