"""What enforcement would do in a database, found out without leaving a trace there."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import psycopg

from lily.domain.connectors import Connector
from lily.domain.errors import InvalidInput, NotFound, Unavailable
from lily.repositories.postgres.connectors import PostgresConnectors
from lily.repositories.postgres.salts import ProtectionSalts
from lily.targets.enforcement.accounts import shield_document
from lily.targets.enforcement.planner import Work
from lily.targets.enforcement.preparation import Preparation
from lily.targets.enforcement.targets import TYPE, Access, Reaches, access_of, connect
from lily.targets.enforcement.wanted import Wanted, Wishes
from lily.targets.enforcement.workshop import Workshop


class Rehearsals:
    """Plans are carried out in a transaction that is rolled back: what would fail, fails here."""

    def __init__(
        self, connectors: PostgresConnectors, salts: ProtectionSalts, wishes: Wishes, reach: Reaches
    ) -> None:
        self._connectors = connectors
        self._salts = salts
        self._wishes = wishes
        self._reach = reach

    async def plan(self, tenant_id: str, connector_id: str) -> dict[str, Any]:
        """The statements that are missing in a database, and those that would undo them."""
        connector = await self._find(tenant_id, connector_id)
        secrets = await self._connectors.secrets_of(connector)
        access = access_of(connector, secrets, await self._salts.of(tenant_id))
        wanted = await self._wishes.read(access)
        try:
            return await asyncio.to_thread(self._rehearse, access, wanted)
        except psycopg.OperationalError as error:
            raise Unavailable(
                f"the database of {connector.name!r} does not answer: {str(error).strip()}; check the "
                "connector's config and secret"
            ) from error

    async def _find(self, tenant_id: str, connector_id: str) -> Connector:
        connector = await self._connectors.find(tenant_id, connector_id)
        if connector is None:
            raise NotFound(
                f"there is no connector {connector_id!r}; GET /lily/v1/connectors/{tenant_id} lists them"
            )
        if connector.type != TYPE:
            raise InvalidInput(
                f"/connector_id: {connector.name!r} is of the type {connector.type!r}, not {TYPE}"
            )
        return connector

    def _rehearse(self, access: Access, wanted: Wanted) -> dict[str, Any]:
        with closing(connect(access, self._reach)) as connection:
            preparation = Preparation(connection, access.options)
            with preparation.imagined() as problems:
                workshop = Workshop(connection, access.options)
                works = workshop.plan(wanted.protections(), known=wanted.known)
                failed = workshop.rehearse(works)
                return {
                    "connector_id": access.connector_id,
                    "database": access.database,
                    "problems": problems,
                    "relations": [_document(work, failed, workshop) for work in works],
                }


def _document(work: Work, failed: dict[str, str], workshop: Workshop) -> dict[str, Any]:
    return {
        "relation": work.relation.label,
        "columns": shield_document(work),
        "statements": [workshop.text(each) for each in work.statements],
        "undo": [workshop.text(each) for each in work.undo],
        "error": failed.get(work.relation.label),
    }
