"""The routes that read and change roles and scraper policies, under /lily/v1/access."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from lily.access.calls import Call, call_for
from lily.access.decisions import Action
from lily.access.requests import check_id
from lily.access.roles import DEFAULT_ROLES
from lily.access.routers import Route, add_routes
from lily.domain.errors import InvalidInput, NotFound
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.policies import PostgresRoles, PostgresScraperPolicies
from lily.serving.rest.access_answers import (
    RoleDocument,
    RoleList,
    ScraperPolicyDocument,
    ScraperPolicyList,
)
from lily.serving.rest.answers import answer
from lily.serving.rest.bodies import body_of, read_model
from lily.serving.rest.policy_documents import (
    RoleBody,
    ScraperPolicyBody,
    role_document,
    scraper_policy_document,
)

ROLES = "/lily/v1/access/roles"
SCRAPER_POLICIES = "/lily/v1/access/scraper-policies"

ReadingRoles = Annotated[Call, Depends(call_for(Action.READ, "role"))]
AdministeringRoles = Annotated[Call, Depends(call_for(Action.ADMINISTER, "role"))]
ReadingScrapers = Annotated[Call, Depends(call_for(Action.READ, "scraper_policy"))]
AdministeringScrapers = Annotated[Call, Depends(call_for(Action.ADMINISTER, "scraper_policy"))]


@dataclass(frozen=True)
class RoleRoutes:
    """A change is answered when every gateway works by it."""

    roles: PostgresRoles
    announcements: Announcements

    def router(self) -> APIRouter:
        one, document = "/{role}", RoleDocument
        return add_routes(
            APIRouter(prefix=ROLES, tags=["access"]),
            Route("", "GET", self.list, "listRoles", RoleList),
            Route(one, "GET", self.get, "getRole", document),
            Route(one, "PUT", self.put, "putRole", document, body_of(RoleBody)),
            Route(one, "DELETE", self.remove, "deleteRole", status=204),
        )

    async def list(self, call: ReadingRoles) -> Response:
        """The roles with members or of the tenant's own making; `default_roles` exist without either."""
        found = await self.roles.list(call.tenant_id)
        return answer({"roles": [role_document(each) for each in found], "default_roles": DEFAULT_ROLES})

    async def get(self, call: ReadingRoles, role: str) -> Response:
        found = await self.roles.list(call.tenant_id, check_id(role))
        if not found:
            raise _no_role(role)
        return answer(role_document(found[0]))

    async def put(self, request: Request, call: AdministeringRoles, role: str) -> Response:
        """Make the role exactly this; a default role can be given members, but includes nothing."""
        body = await read_model(request, RoleBody)
        if role in DEFAULT_ROLES and body.includes:
            detail = f"{role} is a default role and includes no other; give a role of your own what it needs"
            raise InvalidInput(f"/includes: {detail}", errors=[{"pointer": "/includes", "detail": detail}])
        await self.roles.put(call.tenant_id, body.role(_name(role)), body.description)
        await self.announcements.wait_until_heard()
        return await self.get(call, role)

    async def remove(self, call: AdministeringRoles, role: str) -> Response:
        """Forget the role and its members; policies that name it stay."""
        if not await self.roles.remove(call.tenant_id, check_id(role)):
            raise _no_role(role)
        await self.announcements.wait_until_heard()
        return Response(status_code=204)


@dataclass(frozen=True)
class ScraperPolicyRoutes:
    """A change is answered when every gateway works by it."""

    scraper_policies: PostgresScraperPolicies
    announcements: Announcements

    def router(self) -> APIRouter:
        one, document = "/{scraper_group}", ScraperPolicyDocument
        return add_routes(
            APIRouter(prefix=SCRAPER_POLICIES, tags=["access"]),
            Route("", "GET", self.list, "listScraperPolicies", ScraperPolicyList),
            Route(one, "GET", self.get, "getScraperPolicy", document),
            Route(one, "PUT", self.put, "putScraperPolicy", document, body_of(ScraperPolicyBody)),
            Route(one, "DELETE", self.remove, "deleteScraperPolicy", status=204),
        )

    async def list(self, call: ReadingScrapers) -> Response:
        found = await self.scraper_policies.list(call.tenant_id)
        return answer({"scraper_policies": [scraper_policy_document(each) for each in found]})

    async def get(self, call: ReadingScrapers, scraper_group: str) -> Response:
        found = await self.scraper_policies.list(call.tenant_id, check_id(scraper_group))
        if not found:
            raise _no_scraper_policy(scraper_group)
        return answer(scraper_policy_document(found[0]))

    async def put(self, request: Request, call: AdministeringScrapers, scraper_group: str) -> Response:
        """The columns the scrapers of this group may touch, and no others."""
        body = await read_model(request, ScraperPolicyBody)
        await self.scraper_policies.put(call.tenant_id, body.scraper_policy(_name(scraper_group)))
        await self.announcements.wait_until_heard()
        return await self.get(call, scraper_group)

    async def remove(self, call: AdministeringScrapers, scraper_group: str) -> Response:
        """The group's scrapers may touch no column any more."""
        if not await self.scraper_policies.remove(call.tenant_id, check_id(scraper_group)):
            raise _no_scraper_policy(scraper_group)
        await self.announcements.wait_until_heard()
        return Response(status_code=204)


def _name(name: str) -> str:
    if not 1 <= len(name) <= 256 or not name.isprintable():
        raise InvalidInput("a name is 1 to 256 printable characters")
    return check_id(name)


def _no_role(role: str) -> NotFound:
    return NotFound(f"there is no role {role!r} of your own or with members; GET {ROLES} lists them")


def _no_scraper_policy(group: str) -> NotFound:
    return NotFound(f"there is no scraper policy of {group!r}; GET {SCRAPER_POLICIES} lists them")
