"""The routes that read and change policies, under /lily/v1/metadata/access-control and /lily/v1/access."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from lily.access.assets import AssetGuard
from lily.access.calls import Call, call_for
from lily.access.decisions import Action
from lily.access.explanations import covers
from lily.access.requests import check_id, check_uuid
from lily.access.routers import Route, add_routes
from lily.domain.errors import NotFound
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.policies import PostgresPolicies
from lily.serving.rest.access_answers import AssetPolicies, PolicyDocument, PolicyPage
from lily.serving.rest.answers import answer
from lily.serving.rest.bodies import body_of, read_model
from lily.serving.rest.pages import PageTokens, page_size
from lily.serving.rest.policy_documents import PolicyBody, stored_policy_document

CONTROL = "/lily/v1/metadata/access-control"
POLICIES = "/lily/v1/access/policies"

ReadingPolicies = Annotated[Call, Depends(call_for(Action.READ, "policy"))]
AdministeringPolicies = Annotated[Call, Depends(call_for(Action.ADMINISTER, "policy"))]


@dataclass(frozen=True)
class PolicyRoutes:
    """A change is answered when every gateway works by it."""

    policies: PostgresPolicies
    guard: AssetGuard
    announcements: Announcements
    tokens: PageTokens

    def router(self) -> APIRouter:
        one, of_asset = POLICIES + "/{policy_id}", CONTROL + "/{asset_id:path}"
        body, document = body_of(PolicyBody), PolicyDocument
        return add_routes(
            APIRouter(tags=["access"]),
            Route(CONTROL, "POST", self.create, "postAccessControl", document, body, status=201),
            Route(of_asset, "GET", self.concerning, "getAccessControl", AssetPolicies),
            Route(POLICIES, "POST", self.create, "createPolicy", document, body, status=201),
            Route(POLICIES, "GET", self.list, "listPolicies", PolicyPage),
            Route(one, "GET", self.get, "getPolicy", document),
            Route(one, "PUT", self.replace, "replacePolicy", document, body),
            Route(one, "DELETE", self.remove, "deletePolicy", status=204),
        )

    async def create(self, request: Request, call: AdministeringPolicies) -> Response:
        """A new policy, in force everywhere when this is answered."""
        body = await read_model(request, PolicyBody)
        policy = body.policy()
        stored = await self.policies.add(call.tenant_id, policy, body.conditions, call.principal.subject)
        await self.announcements.wait_until_heard()
        headers = {"location": f"{POLICIES}/{policy.policy_id}"}
        return answer(stored_policy_document(stored), 201, headers)

    async def concerning(self, call: ReadingPolicies, asset_id: str) -> Response:
        """The policies that concern an asset, by whatever they reach it."""
        resource = await self.guard.resource(call, check_id(asset_id))
        await call.access.refresh(call.tenant_id)
        policies = call.access.book(call.tenant_id).rules.policies
        ids = [policy.policy_id for policy in policies if covers(policy.scope, resource)]
        found = await self.policies.find(call.tenant_id, ids)
        return answer({"asset_id": asset_id, "policies": [stored_policy_document(each) for each in found]})

    async def list(
        self,
        call: ReadingPolicies,
        page_size: Annotated[int, Query(description="0 means 50; at most 1,000 are answered.")] = 0,
        page_token: Annotated[str, Query(description="`next_page_token` of the page before.")] = "",
    ) -> Response:
        """All policies, in pages."""
        size, question = _size(page_size), ("policies", call.tenant_id)
        after = str(UUID(int=self.tokens.read(page_token, question)[0])) if page_token else None
        found = await self.policies.list(call.tenant_id, after, size + 1)
        page, more = found[:size], len(found) > size
        place = UUID(page[-1].policy.policy_id).int if more else None
        token = self.tokens.issue([place], question) if place is not None else ""
        return answer({"policies": [stored_policy_document(each) for each in page], "next_page_token": token})

    async def get(self, call: ReadingPolicies, policy_id: str) -> Response:
        found = await self.policies.find(call.tenant_id, [check_uuid(policy_id, "policy")])
        if not found:
            raise _unknown(policy_id)
        return answer(stored_policy_document(found[0]))

    async def replace(self, request: Request, call: AdministeringPolicies, policy_id: str) -> Response:
        """The policy, replaced as a whole and in force everywhere when this is answered."""
        body = await read_model(request, PolicyBody)
        policy = body.policy(check_uuid(policy_id, "policy"))
        stored = await self.policies.replace(call.tenant_id, policy, body.conditions)
        if stored is None:
            raise _unknown(policy_id)
        await self.announcements.wait_until_heard()
        return answer(stored_policy_document(stored))

    async def remove(self, call: AdministeringPolicies, policy_id: str) -> Response:
        """The policy is gone, everywhere when this is answered."""
        if not await self.policies.remove(call.tenant_id, check_uuid(policy_id, "policy")):
            raise _unknown(policy_id)
        await self.announcements.wait_until_heard()
        return Response(status_code=204)


def _size(requested: int) -> int:
    return page_size(requested)


def _unknown(policy_id: str) -> NotFound:
    return NotFound(f"there is no policy {policy_id!r}; GET {POLICIES} lists them")
