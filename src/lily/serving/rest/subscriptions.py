"""The routes about subscriptions: everybody's own, under /lily/v1/subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from lily.access.calls import Call, Reading
from lily.access.decisions import Action, Resource
from lily.access.requests import check_id
from lily.access.routers import Route, add_routes
from lily.access.subscriptions import KIND, check_writes, find_subscription, is_own
from lily.domain.connectors import Connector
from lily.domain.errors import Forbidden, InvalidInput, NotFound
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.connectors import NewConnector, PostgresConnectors
from lily.repositories.postgres.identities import Identities
from lily.repositories.postgres.subscriptions import (
    MOST_OF_ONE,
    PostgresSubscriptions,
    Vouched,
)
from lily.serving.rest.answers import answer
from lily.serving.rest.bodies import body_of, read_model
from lily.serving.rest.pages import PageTokens, page_size
from lily.serving.rest.subscription_documents import (
    SubscriptionBody,
    SubscriptionDocument,
    SubscriptionList,
    subscription_document,
)

SUBSCRIPTIONS = "/lily/v1/subscriptions"
_ONE = "/{subscription_id}"


@dataclass(frozen=True)
class SubscriptionRoutes:
    """Who may read assets has subscriptions for themselves; to tell a target takes the right to write
    subscriptions. A change is answered when every dispatcher works by it."""

    subscriptions: PostgresSubscriptions
    connectors: PostgresConnectors
    identities: Identities
    announcements: Announcements
    tokens: PageTokens
    #: The types of connectors that can be told something.
    target_types: Collection[str]
    #: The connector of an address, for somebody; `InvalidInput` unless Lily may send to it.
    connector_of: Callable[[str, str], NewConnector]

    def router(self) -> APIRouter:
        document, body = SubscriptionDocument, body_of(SubscriptionBody)
        return add_routes(
            APIRouter(prefix=SUBSCRIPTIONS, tags=["subscriptions"]),
            Route("", "POST", self.create, "createSubscription", document, body, status=201),
            Route("", "GET", self.list, "listSubscriptions", SubscriptionList),
            Route(_ONE, "GET", self.get, "getSubscription", document),
            Route(_ONE, "PUT", self.replace, "replaceSubscription", document, body),
            Route(_ONE, "DELETE", self.remove, "deleteSubscription", status=204),
        )

    async def create(self, request: Request, call: Reading) -> Response:
        """A new subscription of the caller's own; it tells what they may see, now and later."""
        body = await read_model(request, SubscriptionBody)
        connector_id, secret = await self._target(call, body)
        made = body.subscription((call.tenant_id, call.principal.person), connector_id)
        stored = await self.subscriptions.add(made, await self._vouched(call))
        if stored is None:
            raise InvalidInput(f"nobody has more than {MOST_OF_ONE:,} subscriptions; remove some first")
        call.notebook.write("create", (KIND, made.subscription_id), True, made.name)
        await self.announcements.wait_until_heard()
        shown = subscription_document(stored) | ({"endpoint_secret": secret} if secret else {})
        return answer(shown, 201, {"location": f"{SUBSCRIPTIONS}/{made.subscription_id}"})

    async def list(
        self,
        call: Reading,
        asset_id: Annotated[str | None, Query(description="Only those that name this asset.")] = None,
        everybody: Annotated[bool, Query(description="Of everybody, for administrators.")] = False,
        page_size_: Annotated[int, Query(alias="page_size", description="0 means 50.")] = 0,
        page_token: Annotated[str, Query(description="`next_page_token` of the page before.")] = "",
    ) -> Response:
        """The caller's subscriptions, in pages."""
        if everybody:
            await call.require(Action.ADMINISTER, Resource(call.tenant_id, KIND))
        owner = None if everybody else call.principal.person
        if asset_id is not None:
            found = await self.subscriptions.about(call.tenant_id, owner, check_id(asset_id))
            return answer({"subscriptions": [*map(subscription_document, found)], "next_page_token": ""})
        size, question = page_size(page_size_), (KIND, call.tenant_id, owner or "")
        after = self.tokens.read(page_token, question)[0] if page_token else None
        rows = await self.subscriptions.list(call.tenant_id, owner, after, size + 1)
        page = rows[:size]
        token = ""
        if len(rows) > size:
            token = self.tokens.issue([page[-1].subscription.subscription_id], question)
        return answer({"subscriptions": [*map(subscription_document, page)], "next_page_token": token})

    async def get(self, call: Reading, subscription_id: UUID) -> Response:
        return answer(
            subscription_document(await find_subscription(self.subscriptions, call, subscription_id))
        )

    async def replace(self, request: Request, call: Reading, subscription_id: UUID) -> Response:
        """The subscription, replaced as a whole; it tells by the rights of the credential that says so."""
        body = await read_model(request, SubscriptionBody)
        known = await find_subscription(self.subscriptions, call, subscription_id)
        was = known.subscription
        if not is_own(call, known):
            raise Forbidden("only its owner changes a subscription: it tells what they may see")
        connector_id, secret = await self._target(call, body)
        now = body.subscription((call.tenant_id, was.owner), connector_id, was.subscription_id)
        stored = await self.subscriptions.replace(now, await self._vouched(call))
        if stored is None:
            raise NotFound(f"the subscription {subscription_id} is gone")
        call.notebook.write("update", (KIND, was.subscription_id), True, now.name)
        await self.announcements.wait_until_heard()
        return answer(subscription_document(stored) | ({"endpoint_secret": secret} if secret else {}))

    async def remove(self, call: Reading, subscription_id: UUID) -> Response:
        """Once answered, it tells nothing any more."""
        check_writes(call)
        found = (await find_subscription(self.subscriptions, call, subscription_id)).subscription
        await self.subscriptions.remove(call.tenant_id, found.subscription_id)
        call.notebook.write("delete", (KIND, found.subscription_id), True, found.name)
        await self.announcements.wait_until_heard()
        return Response(status_code=204)

    async def _target(self, call: Call, body: SubscriptionBody) -> tuple[str | None, str]:
        """The id of the connector that is named, when the caller may have it told something; the secret of
        one that is made for an address."""
        check_writes(call)
        if body.connector is None:
            return None, ""
        await call.require(Action.WRITE, Resource(call.tenant_id, KIND))
        if body.url is not None:
            return await self._endpoint(call, body.url)
        found = [each for each in await self.connectors.list(call.tenant_id) if _is(each, body.connector)]
        if not found or found[0].type not in self.target_types:
            types = ", ".join(sorted(self.target_types))
            raise InvalidInput(
                f"/target: there is no connector {body.connector!r} of a type that can be told something "
                f"({types}); register one with POST /lily/v1/connectors/{call.tenant_id}",
                errors=[{"pointer": "/target", "detail": "no such connector"}],
            )
        return found[0].connector_id, ""

    async def _endpoint(self, call: Call, url: str) -> tuple[str, str]:
        """The connector of this address. To make one takes the right to administer connectors, as ever."""
        new = self.connector_of(url, call.principal.subject)
        for each in await self.connectors.list(call.tenant_id):
            if (each.type, each.name, each.config) == (new.type, new.name, new.config):
                return each.connector_id, ""
        await call.require(Action.ADMINISTER, Resource(call.tenant_id, "connector"))
        made = await self.connectors.add(call.tenant_id, new)
        call.notebook.write("create", ("connector", made.connector_id), True, f"{made.type} {made.name}")
        return made.connector_id, new.secrets["secret"] if new.secrets["secret"] != url else ""

    async def _vouched(self, call: Call) -> Vouched:
        """What the credential has besides what the directory gives: that is looked up whenever it counts."""
        principal = call.principal
        scopes = None if principal.scopes is None else sorted(principal.scopes)
        if principal.owner:
            return Vouched(sorted(principal.roles), [], scopes, principal.credential_id)
        named = call.tenant_id, principal.subject
        groups = principal.groups - (await self.identities.person(*named)).groups
        known = await self.identities.person(*named, groups=sorted(groups))
        return Vouched(sorted(principal.roles - known.roles), sorted(groups), scopes, None)


def _is(connector: Connector, named: str) -> bool:
    return named in (connector.connector_id, connector.name)
