"""Which roles groups and users have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from lily.access.calls import Call, call_for
from lily.access.decisions import Action
from lily.access.requests import check_id
from lily.access.routers import Route, add_routes
from lily.domain.errors import NotFound
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.directory import Directory
from lily.serving.rest.auth_answers import GroupRolesDocument, GroupRolesList, UserRolesDocument
from lily.serving.rest.bodies import Body, body_of, read_model

Seeing = Annotated[Call, Depends(call_for(Action.READ, "role"))]
Assigning = Annotated[Call, Depends(call_for(Action.ADMINISTER, "role"))]
GroupName = Annotated[str, Path(min_length=1, max_length=256)]


class RolesBody(Body):
    roles: list[Annotated[str, Field(min_length=1, max_length=100)]] = Field(max_length=50)


@dataclass(frozen=True)
class RoleAssignmentRoutes:
    """A change is answered when every gateway knows of it."""

    directory: Directory
    announcements: Announcements

    def router(self) -> APIRouter:
        group, user, body = "/group-roles/{group_name}", "/users/{user_id}/roles", body_of(RolesBody)
        return add_routes(
            APIRouter(prefix="/lily/v1", tags=["auth"]),
            Route("/group-roles", "GET", self.list, "listGroupRoles", GroupRolesList),
            Route(group, "PUT", self.set_group_roles, "setGroupRoles", GroupRolesDocument, body),
            Route(user, "PUT", self.set_user_roles, "setUserRoles", UserRolesDocument, body),
        )

    async def list(self, call: Seeing) -> Response:
        """The roles of every group that has any; a group is one of SCIM's, or one a token names."""
        return JSONResponse({"group_roles": await self.directory.group_roles(call.tenant_id)})

    async def set_group_roles(self, request: Request, call: Assigning, group_name: GroupName) -> Response:
        """Give the members of a group these roles and no others."""
        roles = sorted(set((await read_model(request, RolesBody)).roles))
        call.notebook.write("assign", ("group", group_name), True, ", ".join(roles))
        await self.directory.set_group_roles(call.tenant_id, check_id(group_name), roles)
        await self.announcements.wait_until_heard()
        return JSONResponse({"group_name": group_name, "roles": roles})

    async def set_user_roles(self, request: Request, call: Assigning, user_id: UUID) -> Response:
        """Give a user these roles and no others, beside those of their groups."""
        roles = sorted(set((await read_model(request, RolesBody)).roles))
        call.notebook.write("assign", ("user", str(user_id)), True, ", ".join(roles))
        if not await self.directory.set_user_roles(call.tenant_id, str(user_id), roles):
            raise NotFound(f"there is no user {user_id}")
        await self.announcements.wait_until_heard()
        return JSONResponse({"user_id": str(user_id), "roles": roles})
