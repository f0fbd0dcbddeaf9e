"""The routes about protection in databases, under /lily/v1/protection: plan, apply and status."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from pydantic import Field

from lily.access.calls import Call, call_for
from lily.access.decisions import Action
from lily.access.requests import check_uuid
from lily.access.routers import Responses, Route, add_routes
from lily.domain.errors import NotFound
from lily.repositories.postgres.enforcement import EnforcementLedger, TargetState
from lily.serving.rest.answers import answer
from lily.serving.rest.bodies import Body, body_of, read_model
from lily.serving.rest.protection_answers import (
    EnforcedDatabaseDetail,
    EnforcedDatabases,
    EnforcementPlan,
    EnforcementRequest,
)

PROTECTION = "/lily/v1/protection"
_RECENT_PLANS = 5
_POLL_SECONDS = 0.1

#: What would be done in the database of a tenant's connector; carried out by whoever can reach it.
Planning = Callable[[str, str], Awaitable[dict[str, Any]]]
Administering = Annotated[Call, Depends(call_for(Action.ADMINISTER, "protection_rule"))]


_DONE_OR_UNDER_WAY: Responses = {
    200: {"model": EnforcementRequest},
    202: {"model": EnforcementRequest, "description": "It is under way."},
}


class EnforcementBody(Body):
    """Which database."""

    connector_id: UUID = Field(description="A connector of the type postgres.")


@dataclass(frozen=True)
class EnforcementRoutes:
    """They name columns of whole databases, so all of them are for those who administer the rules."""

    ledger: EnforcementLedger
    plan_for: Planning
    wait_seconds: float

    def router(self) -> APIRouter:
        body, detail = body_of(EnforcementBody), EnforcedDatabaseDetail
        return add_routes(
            APIRouter(prefix=PROTECTION, tags=["protection"]),
            Route("/plan", "POST", self.plan, "planEnforcement", EnforcementPlan, body),
            Route("/apply", "POST", self.apply, "applyEnforcement", _DONE_OR_UNDER_WAY, body),
            Route("/status", "GET", self.status, "listEnforcement", EnforcedDatabases),
            Route("/status/{connector_id}", "GET", self.of_target, "getEnforcement", detail),
        )

    async def plan(self, request: Request, call: Administering) -> Response:
        """What is missing in a database, statement by statement, tried out and rolled back there."""
        body = await read_model(request, EnforcementBody)
        return answer(await self.plan_for(call.tenant_id, str(body.connector_id)))

    async def apply(self, request: Request, call: Administering) -> Response:
        """Have the enforcer look at a database now; 202 when that takes longer than a moment."""
        body = await read_model(request, EnforcementBody)
        connector_id = str(body.connector_id)
        asked = await self.ledger.ask(call.tenant_id, connector_id, call.principal.subject)
        deadline = time.monotonic() + self.wait_seconds
        while time.monotonic() < deadline:
            outcome = await self.ledger.answered(call.tenant_id, asked)
            if outcome is not None:
                return answer({"connector_id": connector_id, "request_id": asked} | outcome)
            await asyncio.sleep(_POLL_SECONDS)
        return answer({"connector_id": connector_id, "request_id": asked}, 202)

    async def status(self, call: Administering) -> Response:
        """How every database is: enforced, incomplete, unreachable or released."""
        found = await self.ledger.targets(call.tenant_id)
        return answer({"targets": [_target(each) for each in found]})

    async def of_target(self, call: Administering, connector_id: str) -> Response:
        """How one database is: what is protected in it since when, and the latest statements."""
        found = await self.ledger.targets(call.tenant_id, check_uuid(connector_id, "connector"))
        if not found:
            raise NotFound(f"nothing is enforced by a connector {connector_id!r}; GET {PROTECTION}/status")
        relations = await self.ledger.relations(call.tenant_id, connector_id)
        plans = await self.ledger.plans(call.tenant_id, connector_id, _RECENT_PLANS)
        return answer(_target(found[0]) | {"relations": relations, "plans": plans})


def _target(state: TargetState) -> dict[str, Any]:
    told = {"connector_id": state.connector_id, "state": state.state, "checked_at": state.checked_at}
    return told | dict(state.detail)
