"""What the operator does with tenants: made, listed, limited, moved, removed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from lily.apps.migrate import migrate_cell
from lily.domain.errors import InvalidInput, NotFound, Unavailable
from lily.domain.tenants import SHARED, Limits, State
from lily.log.arrears import count_unread
from lily.log.changes import DISPATCHERS
from lily.log.copies import Offsets
from lily.log.migrations import delete_topics
from lily.log.replays import RawRecord
from lily.log.topics import Topic
from lily.repositories.postgres.tenant_admin import (
    CELL_TABLES,
    TenantAdmin,
    create_database,
    drop_database,
    forget_rows,
    tenant_tables,
)
from lily.repositories.postgres.tenants import Tenant
from lily.settings import Settings
from lily.tenancy.cells import cell_settings, dedicated_cell
from lily.tenancy.moves import Home, Way, move_tenant, stop_writes

_HEADINGS = (
    "TENANT",
    "CELL",
    "STATE",
    "DATABASE",
    "TOPICS",
    "LAKE",
    "QUERIES",
    "USERS, RULES, AUDIT",
    "REQUESTS/S",
    "EVENTS/S",
    "ASSETS",
)
#: Kept whatever happens: they cannot be changed.
_AUDIT = {"audit", "audit_heads"}
_TOLD_SECONDS = 30.0
_LEFT_SECONDS = 30.0
#: A pipeline that has not said for so long that it is well runs no queries.
_ALIVE_SECONDS = 10.0
_LOOK_SECONDS = 0.1


class Tenancy:
    """The tenants of one installation."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._url = settings.database.url.get_secret_value()
        self._admin = TenantAdmin(self._url)
        self._defaults = Limits(**settings.quota.model_dump())

    def create(self, name: str, cell: str) -> None:
        """Make a tenant in this cell, and the cell if need be; `InvalidInput` when it lives elsewhere."""
        known = self._admin.find(name)
        if known is not None and known.cell != cell:
            raise InvalidInput(
                f"{name} lives in the cell {known.cell}; move it with `lily tenant move {name} --to {cell}`"
            )
        self._make_cell(cell)
        self._admin.make_tenant(name, cell)

    def limit(self, name: str, limits: Mapping[str, int]) -> None:
        """Set limits; -1 stands for the installation's default."""
        self._admin.make_tenant(name, SHARED)
        for limit, value in limits.items():
            self._admin.set_limit(name, limit, None if value < 0 else value)

    def describe(self, name: str) -> dict[str, Any]:
        found = self._found(name)
        limits = asdict(found.limits.or_default(self._defaults))
        used = {"assets": found.assets, "bytes": found.bytes}
        return {
            "tenant": name,
            "cell": found.cell,
            "state": found.state.value,
            "limits": limits,
            "usage": used,
        }

    def matrix(self) -> list[tuple[str, ...]]:
        """A heading, then one row per tenant: `own` or `shared`, with the name of what it is."""
        cells = self._admin.cells()
        living = [tenant.cell for tenant in self._admin.tenants()]
        rows: list[tuple[str, ...]] = [_HEADINGS]
        for tenant in self._admin.tenants():
            cell = cells.get(tenant.cell)
            settings = cell_settings(self._settings, cell) if cell else self._settings
            mark = "own" if cell and living.count(tenant.cell) == 1 else "shared"
            limits = tenant.limits.or_default(self._defaults)
            rows.append(
                (
                    tenant.tenant_id,
                    tenant.cell,
                    tenant.state.value,
                    f"{mark} {settings.database.url.get_secret_value().rpartition('/')[2]}",
                    f"{mark} {settings.kafka.topic_prefix}*",
                    f"{mark} {settings.lake.namespace}",
                    f"{mark} {tenant.cell}",
                    f"shared {self._url.rpartition('/')[2]}",
                    str(limits.requests_per_second or "no limit"),
                    str(limits.events_per_second or "no limit"),
                    f"{tenant.assets} of {limits.max_assets or 'no limit'}",
                )
            )
        return rows

    def move(self, name: str, cell: str, say: Callable[[str], None]) -> float:
        """Move; returns for how many seconds writes were asked to come back."""
        found = self._found(name)
        if found.cell == cell:
            raise InvalidInput(f"{name} lives in the cell {cell} already")
        self._make_cell(cell)
        way = Way(self._home(found.cell), self._home(cell))

        def from_lake(first: Offsets) -> Iterable[RawRecord]:
            from lily.pipeline.archived import archived_records  # Spark, which few moves need

            return archived_records(way.source.settings, name, first)

        seconds = move_tenant(self._admin, name, way, from_lake, say)
        self._wait_until_told(found.cell)
        self._drop_if_empty(found.cell)
        return seconds

    def tidy(self) -> None:
        """Remove what is left where no tenant lives: empty cells, and rows of tenants that live elsewhere."""
        for tenant in self._admin.tenants():
            if tenant.cell != SHARED:
                forget_rows(self._url, tenant.tenant_id, CELL_TABLES)
        for name in self._admin.cells():
            self._wait_until_told(name)
            self._drop_if_empty(name)

    def delete(self, name: str) -> bool:
        """Remove a tenant and all it has in PostgreSQL, but for the audit; false when there is none."""
        found = self._admin.find(name)
        if found is None:
            return False
        self._admin.set_state(name, State.DELETING)
        stop_writes(self._admin, name)
        forget_rows(self._home(found.cell).url, name, CELL_TABLES)
        forget_rows(self._url, name, tenant_tables(self._url) - _AUDIT)
        self._drop_if_empty(found.cell)
        return True

    def _make_cell(self, name: str) -> None:
        """Database, tables and topics first: the queries start as soon as the cell is known."""
        if name == SHARED or name in self._admin.cells():
            return
        cell = dedicated_cell(self._settings, name)
        create_database(self._url, cell.database)
        migrate_cell(cell_settings(self._settings, cell))
        self._admin.make_cell(cell)

    def _wait_until_told(self, name: str) -> None:
        """Return when dispatchers have read what an empty cell was asked to tell: only its log has that."""
        cell = self._admin.cells().get(name)
        if cell is None or any(tenant.cell == name for tenant in self._admin.tenants()):
            return
        kafka, group = (
            cell_settings(self._settings, cell).kafka,
            self._settings.kafka.topic_prefix + DISPATCHERS,
        )
        latest = time.monotonic() + _TOLD_SECONDS
        while count_unread(kafka, group, [Topic.NOTIFICATIONS]):
            if time.monotonic() > latest:
                raise Unavailable(
                    f"no tenant lives in the cell {name} any more; it stays until the dispatcher has read "
                    "what it was asked to tell. Is `lily up` running? Then `lily tenant tidy` removes it."
                )
            time.sleep(_LOOK_SECONDS)

    def _wait_until_left(self, name: str) -> None:
        """Give the pipeline the time to end its queries: for topics that are gone they would wait in vain."""
        latest = time.monotonic() + _LEFT_SECONDS
        while self._admin.runs_queries(name, _ALIVE_SECONDS) and time.monotonic() < latest:
            time.sleep(_LOOK_SECONDS)

    def _drop_if_empty(self, name: str) -> None:
        """A dedicated cell without tenants goes: its database and topics; its part of the lake stays."""
        cell = self._admin.cells().get(name)
        if cell is not None and self._admin.forget_cell(name):
            self._wait_until_left(name)
            drop_database(self._url, cell.database)
            delete_topics(cell_settings(self._settings, cell).kafka)

    def _home(self, name: str) -> Home:
        if name == SHARED:
            return Home(SHARED, self._settings)
        return Home(name, cell_settings(self._settings, self._admin.cells()[name]))

    def _found(self, name: str) -> Tenant:
        found = self._admin.find(name)
        if found is None:
            raise NotFound(f"there is no tenant {name!r}; `lily tenant list` shows those there are")
        return found
