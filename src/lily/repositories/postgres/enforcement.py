"""The ledger of enforcement: every statement Lily says in somebody's database, and how each database is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.queries import load

#: The kind of the announcement that somebody asks for work; its key is the connector's id.
ASKED = "enforcement"
_QUERIES = load("enforcement.sql")


@dataclass(frozen=True, slots=True)
class Spoken:
    """A statement as it would be said; `is_meanwhile`: if somebody is in the way of the others."""

    relation: str
    statement: str
    is_undo: bool = False
    is_meanwhile: bool = False


@dataclass(frozen=True, slots=True)
class Become:
    """How a relation is: live, waiting or failed, and what protects its columns, by their names."""

    relation: str
    state: str
    columns: Mapping[str, Any]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CameOf:
    """What came of a plan: how relations have become, and of which ones the statements were carried out
    (`done`), or those meanwhile (`denied`); what belongs to no relation has the name ""."""

    become: Sequence[Become] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    done: Sequence[str] = ()
    denied: Sequence[str] = ()

    @property
    def state(self) -> str:
        if self.failed:
            return "failed"
        return "waiting" if any(each.state == "waiting" for each in self.become) else "applied"


@dataclass(frozen=True, slots=True)
class TargetState:
    connector_id: str
    state: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    checked_at: datetime | None = None


class EnforcementLedger:
    """In the shared cell's database, as connectors are."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, tenant_id: str, connector_id: str, reason: str, spoken: Sequence[Spoken]) -> str:
        """Remember what will be said, before it is; returns the plan's id."""
        plan_id = str(uuid4())
        names = {"tenant_id": tenant_id, "plan_id": plan_id}
        said = {
            "relations": [each.relation for each in spoken],
            "statements": [each.statement for each in spoken],
            "undoes": [each.is_undo for each in spoken],
            "meanwhiles": [each.is_meanwhile for each in spoken],
        }
        async with self._database.transaction(tenant_id) as connection:
            about = {"connector_id": connector_id, "reason": reason}
            await connection.execute(_QUERIES["insert_plan"], names | about)
            await connection.execute(_QUERIES["insert_statements"], names | said)
        return plan_id

    async def settle(self, target: tuple[str, str], plan_id: str, came: CameOf) -> None:
        """Remember what came of a plan, which of its statements were said, and how its relations are now."""
        tenant_id, connector_id = target
        names = {"tenant_id": tenant_id, "connector_id": connector_id}
        protected = [each for each in came.become if each.columns]
        values = {
            "relations": [each.relation for each in protected],
            "states": [each.state for each in protected],
            "columns": [json.dumps(each.columns) for each in protected],
            "details": [each.detail for each in protected],
        }
        plan = {"tenant_id": tenant_id, "plan_id": plan_id}
        settled = {"state": came.state, "detail": json.dumps({"failed": dict(came.failed)})}
        said = {"done": list(came.done), "denied": list(came.denied)}
        gone = {"relations": [each.relation for each in came.become if not each.columns]}
        async with self._database.transaction(tenant_id) as connection:
            await connection.execute(_QUERIES["settle_plan"], plan | settled)
            await connection.execute(_QUERIES["settle_statements"], plan | said)
            await connection.execute(_QUERIES["put_relations"], names | values)
            await connection.execute(_QUERIES["forget_relations"], names | gone)

    async def tell(self, tenant_id: str, state: TargetState) -> None:
        values = {
            "tenant_id": tenant_id,
            "connector_id": state.connector_id,
            "state": state.state,
            "detail": json.dumps(state.detail),
        }
        await self._database.fetch(_QUERIES["put_target"], values)

    async def targets(self, tenant_id: str, connector_id: str | None = None) -> list[TargetState]:
        values = {"tenant_id": tenant_id, "connector_id": connector_id}
        return [TargetState(*row) for row in await self._database.fetch(_QUERIES["list_targets"], values)]

    async def relations(self, tenant_id: str, connector_id: str) -> list[dict[str, Any]]:
        values = {"tenant_id": tenant_id, "connector_id": connector_id}
        names = ("relation", "state", "columns", "detail", "since")
        rows = await self._database.fetch(_QUERIES["list_relations"], values)
        return [dict(zip(names, row, strict=True)) for row in rows]

    async def plans(self, tenant_id: str, connector_id: str, limit: int) -> list[dict[str, Any]]:
        """The newest first, each with its statements."""
        values = {"tenant_id": tenant_id, "connector_id": connector_id, "limit": limit}
        names = ("plan_id", "reason", "state", "detail", "planned_at", "settled_at")
        rows = await self._database.fetch(_QUERIES["list_plans"], values)
        return [
            dict(zip(names, row, strict=True)) | {"statements": await self.statements(tenant_id, row[0])}
            for row in rows
        ]

    async def statements(self, tenant_id: str, plan_id: str) -> list[dict[str, Any]]:
        values = {"tenant_id": tenant_id, "plan_id": plan_id}
        names = ("relation", "statement", "is_undo", "is_meanwhile", "is_said")
        rows = await self._database.fetch(_QUERIES["list_statements"], values)
        return [dict(zip(names, row, strict=True)) for row in rows]

    async def ask(self, tenant_id: str, connector_id: str, actor: str) -> str:
        """Ask the enforcer to look at a database; returns the request's id."""
        request_id = str(uuid4())
        values = {
            "tenant_id": tenant_id,
            "connector_id": connector_id,
            "request_id": request_id,
            "actor": actor,
        }
        await self._database.fetch(_QUERIES["insert_request"], values)
        return request_id

    async def asked(self, tenant_id: str, connector_id: str) -> list[str]:
        values = {"tenant_id": tenant_id, "connector_id": connector_id}
        return [row[0] for row in await self._database.fetch(_QUERIES["list_requests"], values)]

    async def answer(self, tenant_id: str, requests: Sequence[str], outcome: Mapping[str, Any]) -> None:
        values = {"tenant_id": tenant_id, "requests": list(requests), "outcome": json.dumps(outcome)}
        await self._database.fetch(_QUERIES["settle_requests"], values)

    async def answered(self, tenant_id: str, request_id: str) -> dict[str, Any] | None:
        """What came of a request; None while it is not done."""
        values = {"tenant_id": tenant_id, "request_id": request_id}
        rows = await self._database.fetch(_QUERIES["find_request"], values)
        return dict(rows[0][0]) if rows else None


@dataclass(frozen=True, slots=True)
class KnownPlace:
    """An asset in a database; `is_classified`: somebody gave it a tag."""

    external_id: str
    is_column: bool
    is_classified: bool


class KnownPlaces:
    """The tables, views and columns a database is known to have, in the database its tenant lives in."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, tenant_id: str, source: str, connector_id: str) -> list[KnownPlace]:
        values = {"tenant_id": tenant_id, "source": source, "connector_id": connector_id}
        rows = await self._database.fetch(_QUERIES["known_places"], values)
        return [KnownPlace(*row) for row in rows]
