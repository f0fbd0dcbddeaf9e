"""The routes that have something told by hand: a notice about an asset, and a test of a subscription."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic_core import to_json

from lily.access.calls import Call, Reading, Writing
from lily.access.decisions import Action
from lily.access.requests import check_id, read_body
from lily.access.routers import Route, add_routes
from lily.access.subscriptions import KIND, check_writes, find_subscription
from lily.ingest.notifications import NotificationRequest
from lily.ingest.payloads import Decoder
from lily.ingest.rest.bodies import accepts, answers
from lily.ingest.rest.writing import ASSETS, Writer
from lily.repositories.postgres.subscriptions import PostgresSubscriptions

NOTIFICATIONS = f"{ASSETS}/notifications"
TEST = "/lily/v1/subscriptions/{subscription_id}/test"

_REQUEST: Decoder[NotificationRequest] = Decoder(NotificationRequest)
_TEST = {
    "title": "Test of a subscription",
    "text": "This is how a message of this subscription arrives. Nothing has happened.",
    "outcome": "requested",
}


@dataclass(frozen=True)
class NotificationWrites:
    """Everything goes over the log (`notification-events`): it is told like whatever else happens."""

    writer: Writer
    subscriptions: PostgresSubscriptions

    def router(self) -> APIRouter:
        given, posts = answers(s202="NotificationReceipt"), accepts("NotificationRequest")
        return add_routes(
            APIRouter(tags=["notifications"]),
            Route(NOTIFICATIONS, "POST", self.post, "postNotification", given, posts, status=202),
            Route(TEST, "POST", self.test, "testSubscription", given, accepts(), status=202),
        )

    async def post(self, request: Request, call: Writing) -> Response:
        """Have something told about an asset one may change, as if it had happened to it."""
        body = await read_body(request)
        said: dict[str, Any] = dict(_REQUEST.decode(body))
        asset_id = check_id(said.pop("asset_id"))
        await self.writer.guard.find_for(call, Action.WRITE, asset_id)
        if "subscription_id" in said:
            found = await find_subscription(self.subscriptions, call, UUID(said["subscription_id"]))
            said["subscription_id"] = found.subscription.subscription_id
        return await self._request(request, call, body, asset_id, said | {"outcome": "requested"})

    async def test(self, request: Request, call: Reading, subscription_id: UUID) -> Response:
        """Have a subscription tell something, to see how it arrives."""
        check_writes(call)
        found = await find_subscription(self.subscriptions, call, subscription_id)
        own = found.subscription.subscription_id
        call.notebook.write("test", (KIND, own), True, "a message was sent to see how it arrives")
        return await self._request(request, call, b"", None, _TEST | {"subscription_id": own})

    async def _request(
        self, request: Request, call: Call, body: bytes, asset_id: str | None, said: dict[str, Any]
    ) -> Response:
        write = self.writer.begin(request, call, body)
        recorder = self.writer.recorder
        event_id = await recorder.request_notification(write.arrival, write.keyed, asset_id, said)
        receipt = to_json({"event_id": str(event_id)})
        return Response(receipt, 202, {"lily-event-id": str(event_id)}, media_type="application/json")
