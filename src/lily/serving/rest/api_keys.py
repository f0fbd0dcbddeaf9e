"""API keys for machines: made, listed and revoked."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field
from pydantic_core import to_json

from lily.access.calls import Call, Calling
from lily.access.credentials import KEY
from lily.access.decisions import Action, Resource
from lily.access.routers import Route, add_routes
from lily.access.scopes import actions_of, check_scopes
from lily.access.secrets import API_KEY, Secret, new_value
from lily.domain.errors import AlreadyExists, Forbidden, NotFound
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.api_keys import ApiKey, ApiKeys, NewKey
from lily.repositories.postgres.identities import Identities
from lily.serving.rest.auth_answers import ApiKeyDocument, ApiKeyList, NewApiKey
from lily.serving.rest.bodies import Body, body_of, read_model

DAY = 24 * 3600
MAX_DAYS = 366


class KeyBody(Body):
    name: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_. -]+$")
    roles: list[str] = Field(min_length=1, max_length=20)
    scopes: list[str] | None = Field(None, description="What the key is good for at most.")
    expires_in_days: int = Field(90, ge=1, le=MAX_DAYS)


@dataclass(frozen=True)
class ApiKeyRoutes:
    keys: ApiKeys
    identities: Identities
    announcements: Announcements

    def router(self) -> APIRouter:
        one = "/{key_id}"
        return add_routes(
            APIRouter(prefix="/lily/v1/api-keys", tags=["auth"]),
            Route("", "POST", self.create, "createApiKey", NewApiKey, body_of(KeyBody), status=201),
            Route("", "GET", self.list, "listApiKeys", ApiKeyList),
            Route(one, "GET", self.get, "getApiKey", ApiKeyDocument),
            Route(one, "DELETE", self.revoke, "revokeApiKey", status=204),
        )

    async def create(self, request: Request, call: Calling) -> Response:
        """A new key; its text is in this answer and nowhere else."""
        body = await read_model(request, KeyBody)
        scopes = None if body.scopes is None else check_scopes(body.scopes)
        if request.state.credential.kind == KEY:
            raise Forbidden("an API key makes no API keys; log in")
        await _check_not_beyond(call, body.roles, scopes)
        seconds, maker = body.expires_in_days * DAY, call.principal
        vouched = maker.roles - (await self.identities.person(call.tenant_id, maker.subject)).roles
        had = [*maker.roles], [*maker.groups], [*vouched]
        new = NewKey(body.name, maker.subject, body.roles, scopes, seconds, *had)
        value = new_value()
        made = await self.keys.create(call.tenant_id, new, Secret(API_KEY, "", "", value).hash)
        if made is None:
            raise AlreadyExists(f"there is a key {body.name!r} already; revoke it or take another name")
        call.notebook.write("create", ("api_key", made.key_id), True, f"{made.name}: {', '.join(made.roles)}")
        text = Secret(API_KEY, call.tenant_id, made.key_id, value).text
        headers = {"location": f"/lily/v1/api-keys/{made.key_id}"}
        return Response(
            to_json(_shown(made) | {"api_key": text}), 201, headers, media_type="application/json"
        )

    async def list(self, call: Calling) -> Response:
        """One's own keys; an administrator sees everybody's."""
        owner = None if await _administers(call) else call.principal.subject
        found = await self.keys.list(call.tenant_id, owner)
        return Response(to_json({"api_keys": [_shown(key) for key in found]}), media_type="application/json")

    async def get(self, call: Calling, key_id: UUID) -> Response:
        return Response(to_json(_shown(await self._find(call, key_id))), media_type="application/json")

    async def revoke(self, call: Calling, key_id: UUID) -> Response:
        """Revoke a key; once answered, it is refused everywhere."""
        key = await self._find(call, key_id)
        call.notebook.write("revoke", ("api_key", key.key_id), True, key.name)
        await self.keys.revoke(call.tenant_id, key.key_id)
        await self.announcements.wait_until_heard()
        return Response(status_code=204)

    async def _find(self, call: Call, key_id: UUID) -> ApiKey:
        key = await self.keys.find(call.tenant_id, str(key_id))
        if key is not None and key.owner.lower() == call.principal.subject.lower():
            return key
        if key is not None and await _administers(call):
            return key
        raise NotFound(f"there is no API key {key_id}")


def _shown(key: ApiKey) -> dict[str, Any]:
    return asdict(key)


async def _administers(call: Call) -> bool:
    return (await call.decide(Action.ADMINISTER, Resource(call.tenant_id, "api_key"))).allowed


async def _check_not_beyond(call: Call, roles: list[str], scopes: list[str] | None) -> None:
    """A key is never good for more than the credential it was made with."""
    principal = call.principal
    if not set(roles) <= principal.roles and not await _administers(call):
        raise Forbidden(f"a key has at most your roles: {', '.join(sorted(principal.roles)) or 'none'}")
    wanted = actions_of(scopes)
    if principal.scopes is not None and (wanted is None or not wanted <= principal.scopes):
        raise Forbidden("a key has at most the scopes of the token it is made with; name fewer scopes")
