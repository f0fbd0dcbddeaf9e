"""The routes of the delivery log: what was told to which target, what came of it, and telling it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import BaseModel

from lily.access.assets import AssetGuard
from lily.access.calls import Call, call_for
from lily.access.decisions import Action, Resource
from lily.access.requests import check_id
from lily.access.routers import Route, add_routes
from lily.domain.deliveries import Status
from lily.domain.errors import NotFound
from lily.repositories.postgres.delivery_log import DeliveryFilter, DeliveryLog, LoggedDelivery
from lily.serving.rest.answers import answer
from lily.serving.rest.pages import PageTokens, page_size

DELIVERIES = "/lily/v1/deliveries"
ReadingDeliveries = Annotated[Call, Depends(call_for(Action.READ, "connector"))]
AdministeringDeliveries = Annotated[Call, Depends(call_for(Action.ADMINISTER, "connector"))]
Documents = list[dict[str, Any]]
PageToken = Annotated[str, Query(description="`next_page_token` of the page before.")]
Text = Annotated[str | None, Query(max_length=2000)]


class DeliveryDocument(BaseModel):
    """One message of one subscription to one target.

    `rendered` and `message` are the words themselves; who may not read every asset does not see them, for
    they may name some. `latency_seconds` is from the change to the target's acknowledgement.
    """

    delivery_id: str
    subscription_id: str
    connector_id: str
    cause: str
    asset_id: str | None
    status: Status
    attempts: int
    failures: int
    error: str | None
    told_at: str
    created_at: str
    finished_at: str | None
    next_attempt_at: str | None
    latency_seconds: float | None
    log: list[dict[str, Any]] | None
    rendered: str | None
    message: dict[str, Any] | None


class DeliveryPage(BaseModel):
    deliveries: list[DeliveryDocument]
    next_page_token: str


class ReplayAnswer(BaseModel):
    replayed: int


def filters(
    status: Status | None = None,
    subscription_id: UUID | None = None,
    connector_id: UUID | None = None,
    asset_id: Text = None,
) -> DeliveryFilter:
    return DeliveryFilter(
        status=status.value if status else None,
        subscription_id=str(subscription_id) if subscription_id else None,
        connector_id=str(connector_id) if connector_id else None,
        asset_id=None if asset_id is None else check_id(asset_id),
    )


class DeliveryRoutes:
    """What a caller may not read was not told, as far as they can see."""

    def __init__(self, log: DeliveryLog, guard: AssetGuard, tokens: PageTokens) -> None:
        self._log = log
        self._guard = guard
        self._tokens = tokens

    def router(self) -> APIRouter:
        one = "/{delivery_id}"
        return add_routes(
            APIRouter(prefix=DELIVERIES, tags=["deliveries"]),
            Route("", "GET", self.list, "listDeliveries", DeliveryPage),
            Route("/replay", "POST", self.replay_dead, "replayDeadDeliveries", ReplayAnswer),
            Route(one, "GET", self.get, "getDelivery", DeliveryDocument),
            Route(one + "/replay", "POST", self.replay, "replayDelivery", ReplayAnswer),
        )

    async def list(
        self,
        call: ReadingDeliveries,
        wanted: Annotated[DeliveryFilter, Depends(filters)],
        page_size_: Annotated[int, Query(alias="page_size", description="0 means 50; at most 1,000.")] = 0,
        page_token: PageToken = "",
    ) -> Response:
        """Those about what the caller may read, the newest first; a page may hold fewer than asked."""
        question, size = ("deliveries", call.tenant_id, repr(wanted)), page_size(page_size_)
        before = self._tokens.read(page_token, question)[0] if page_token else None
        found = await self._log.newest(call.tenant_id, wanted, before, size + 1)
        page, more = found[:size], len(found) > size
        content = {
            "deliveries": await self._shown(call, page),
            "next_page_token": self._tokens.issue((page[-1].seq,), question) if more else "",
        }
        return answer(content)

    async def get(self, call: ReadingDeliveries, delivery_id: UUID) -> Response:
        return answer(await self._find(call, delivery_id))

    async def replay(self, call: AdministeringDeliveries, delivery_id: UUID) -> Response:
        """Send a finished one again, under its old id: a receiver that had it knows it."""
        await self._find(call, delivery_id)
        return await self._again(call, [str(delivery_id)])

    async def replay_dead(
        self, call: AdministeringDeliveries, wanted: Annotated[DeliveryFilter, Depends(filters)]
    ) -> Response:
        """Send the dead ones again that the filters name, 1,000 at most; repeat while it answers so many."""
        dead = DeliveryFilter(**(asdict(wanted) | {"status": Status.DEAD.value}))
        found = await self._log.newest(call.tenant_id, dead, None, 1000)
        shown = await self._shown(call, found)
        return await self._again(call, [each["delivery_id"] for each in shown])

    async def _again(self, call: Call, delivery_ids: Sequence[str]) -> Response:
        replayed = await self._log.replay(call.tenant_id, delivery_ids)
        about = delivery_ids[0] if len(delivery_ids) == 1 else ""
        call.notebook.write("replay", ("delivery", about), True, f"{replayed} sent again")
        return answer({"replayed": replayed})

    async def _find(self, call: Call, delivery_id: UUID) -> dict[str, Any]:
        found = await self._log.find(call.tenant_id, str(delivery_id))
        shown = await self._shown(call, [found] if found else [])
        if found and not shown:
            call.notebook.write("read", ("delivery", str(delivery_id)), False, "its asset may not be read")
        if not shown:
            raise NotFound(f"there is no delivery {delivery_id}; GET {DELIVERIES} lists them")
        return shown[0]

    async def _shown(self, call: Call, found: Sequence[LoggedDelivery]) -> Documents:
        """Those about what the caller may read, with their words if the caller may read everything."""
        named = sorted({each.asset_id for each in found if each.asset_id is not None})
        readable = await self._guard.show(call, named, "deliveries") if named else set()
        await call.access.refresh(call.tenant_id)
        same = call.access.decide_for_all(call.principal, Action.READ, call.circumstances)
        sees_all = same is not None and same.allowed
        shown = []
        for each in found:
            if each.asset_id in readable if each.asset_id else await self._may_read_incident(call, each):
                shown.append(document(each, with_words=sees_all))
        return shown

    async def _may_read_incident(self, call: Call, delivery: LoggedDelivery) -> bool:
        """What is about no asset is about an incident that is attached to none, or about nothing hidden."""
        incident = str(delivery.message.get("incident_id") or "")
        if not incident:
            return True
        return (await call.decide(Action.READ, Resource(call.tenant_id, "incident", incident))).allowed


def document(delivery: LoggedDelivery, *, with_words: bool) -> dict[str, Any]:
    return {
        "delivery_id": delivery.delivery_id,
        "subscription_id": delivery.subscription_id,
        "connector_id": delivery.connector_id,
        "cause": delivery.cause,
        "asset_id": delivery.asset_id,
        "status": delivery.status,
        "attempts": delivery.attempts,
        "failures": delivery.failures,
        "error": delivery.error if with_words else None,
        "told_at": delivery.told_at,
        "created_at": delivery.created_at,
        "finished_at": delivery.finished_at,
        "next_attempt_at": delivery.next_attempt,
        "latency_seconds": delivery.latency,
        "log": delivery.log if with_words else None,
        "rendered": delivery.rendered if with_words else None,
        "message": delivery.message if with_words else None,
    }
