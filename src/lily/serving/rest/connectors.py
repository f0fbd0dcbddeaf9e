"""The routes that register, list, change and remove a tenant's connectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field, SecretStr
from pydantic_core import to_json

from lily.access.calls import Call, call_for
from lily.access.decisions import Action
from lily.access.routers import Route, add_routes
from lily.domain.connectors import SECRET, Connector, ConnectorTypes
from lily.domain.errors import InvalidInput, NotFound
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.connectors import ConnectorChange, NewConnector, PostgresConnectors
from lily.serving.rest.answers import answer
from lily.serving.rest.bodies import Body, body_of, read_model

CONNECTORS = "/lily/v1/connectors/{tenant_id}"
_ONE = "/{connector_id}"
MAX_CONFIG_BYTES = 64 * 1024

ReadingConnectors = Annotated[Call, Depends(call_for(Action.READ, "connector"))]
AdministeringConnectors = Annotated[Call, Depends(call_for(Action.ADMINISTER, "connector"))]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_. -]+$")]
Abandon = Annotated[
    bool, Query(description="Remove it although its database is still protected, and leave that as it is.")
]
SecretText = Annotated[SecretStr, Field(min_length=1, max_length=16_384)]


class ConnectorBody(Body):
    type: str = Field(max_length=100)
    name: Name
    secret: SecretText | dict[str, SecretText] = Field(
        {}, description="What it logs in with: one secret, or several by name. It is never shown again."
    )
    config: dict[str, Any] = Field({}, description="What its type asks for; no secrets.")


class ConnectorChangeBody(Body):
    """What is left out stays as it is; a secret that is null is forgotten."""

    name: Name | None = None
    secret: SecretText | dict[str, SecretText | None] | None = None
    config: dict[str, Any] | None = None
    is_disabled: bool | None = None


class ConnectorDocument(BaseModel):
    """A connector as it is shown; `secrets` are names."""

    tenant_id: str
    connector_id: str
    type: str
    name: str
    config: dict[str, Any]
    is_disabled: bool
    secrets: list[str]
    created_by: str
    created_at: str
    updated_at: str


class ConnectorList(BaseModel):
    connectors: list[ConnectorDocument]
    types: list[str]


@dataclass(frozen=True)
class ConnectorRoutes:
    """A change is answered when every gateway works by it."""

    connectors: PostgresConnectors
    types: ConnectorTypes
    announcements: Announcements

    def router(self) -> APIRouter:
        one, added, changed = ConnectorDocument, body_of(ConnectorBody), body_of(ConnectorChangeBody)
        return add_routes(
            APIRouter(prefix=CONNECTORS, tags=["connectors"]),
            Route("", "POST", self.add, "addConnector", one, added, status=201),
            Route("", "GET", self.list, "listConnectors", ConnectorList),
            Route(_ONE, "GET", self.get, "getConnector", one),
            Route(_ONE, "PATCH", self.change, "changeConnector", one, changed),
            Route(_ONE, "DELETE", self.remove, "removeConnector", status=204),
        )

    async def add(self, request: Request, call: AdministeringConnectors, tenant_id: str) -> Response:
        """Register a connector; its secret is encrypted and never shown again."""
        own, body = _own(call, tenant_id), await read_model(request, ConnectorBody)
        secrets = {name: value.get_secret_value() for name, value in _named(body.secret).items() if value}
        _check_size(body.config)
        kind = self.types.of(body.type)
        kind.check(body.config, secrets)
        kind.check_secrets(secrets)
        new = NewConnector(body.type, body.name, body.config, secrets, call.principal.subject)
        made = await self.connectors.add(own, new)
        call.notebook.write("create", ("connector", made.connector_id), True, f"{made.type} {made.name}")
        await self.announcements.wait_until_heard()
        headers = {"location": f"/lily/v1/connectors/{own}/{made.connector_id}"}
        return answer(connector_document(made), 201, headers)

    async def list(self, call: ReadingConnectors, tenant_id: str) -> Response:
        """The tenant's connectors by name, without their secrets, and the types there are."""
        found = await self.connectors.list(_own(call, tenant_id))
        return answer({"connectors": [connector_document(each) for each in found], "types": self.types.names})

    async def get(self, call: ReadingConnectors, tenant_id: str, connector_id: UUID) -> Response:
        return answer(connector_document(await self._find(_own(call, tenant_id), connector_id)))

    async def change(
        self, request: Request, call: AdministeringConnectors, tenant_id: str, connector_id: UUID
    ) -> Response:
        """Change its name, configuration or secrets, or switch it off and on."""
        body = await read_model(request, ConnectorChangeBody)
        was = await self._find(_own(call, tenant_id), connector_id)
        secrets = {
            name: value.get_secret_value() if value else None
            for name, value in _named(body.secret or {}).items()
        }
        change = ConnectorChange(body.name, body.config, body.is_disabled, secrets)
        self._check_change(was, change)
        now = await self.connectors.change(tenant_id, str(connector_id), change)
        if now is None:
            raise _no_connector(connector_id)
        call.notebook.write("update", ("connector", now.connector_id), True, f"{now.type} {now.name}")
        await self.announcements.wait_until_heard()
        return answer(connector_document(now))

    async def remove(
        self, call: AdministeringConnectors, tenant_id: str, connector_id: UUID, abandon: Abandon = False
    ) -> Response:
        """Forget the connector and its secrets; once answered, no gateway uses them any more."""
        if not await self.connectors.remove(_own(call, tenant_id), str(connector_id), abandon=abandon):
            raise _no_connector(connector_id)
        how = "removed, its database left as it is" if abandon else "removed"
        call.notebook.write("delete", ("connector", str(connector_id)), True, how)
        await self.announcements.wait_until_heard()
        return Response(status_code=204)

    async def _find(self, tenant_id: str, connector_id: UUID) -> Connector:
        found = await self.connectors.find(tenant_id, str(connector_id))
        if found is None:
            raise _no_connector(connector_id)
        return found

    def _check_change(self, was: Connector, change: ConnectorChange) -> None:
        config = was.config if change.config is None else change.config
        _check_size(config)
        changed, kind = change.secrets or {}, self.types.of(was.type)
        given = {name: value for name, value in changed.items() if value is not None}
        kept = set(was.secrets) - set(changed)
        kind.check(config, kept | set(given))
        kind.check_secrets(given)
        kind.check_move(was.config, config, kept)


def connector_document(connector: Connector) -> dict[str, Any]:
    """All but what its secrets are."""
    return {
        "tenant_id": connector.tenant_id,
        "connector_id": connector.connector_id,
        "type": connector.type,
        "name": connector.name,
        "config": connector.config,
        "is_disabled": connector.is_disabled,
        "secrets": connector.secrets,
        "created_by": connector.created_by,
        "created_at": connector.created_at,
        "updated_at": connector.updated_at,
    }


def _named(secret: Any) -> dict[str, SecretStr | None]:
    return secret if isinstance(secret, dict) else {SECRET: secret}


def _own(call: Call, tenant_id: str) -> str:
    if tenant_id != call.tenant_id:
        raise NotFound(f"there is no tenant {tenant_id!r} that you belong to")
    return tenant_id


def _check_size(config: Any) -> None:
    if len(to_json(config)) > MAX_CONFIG_BYTES:
        raise InvalidInput(f"/config: it is larger than {MAX_CONFIG_BYTES:,} bytes; keep less in it")


def _no_connector(connector_id: UUID) -> NotFound:
    return NotFound(f"there is no connector {connector_id}; GET /lily/v1/connectors/<tenant> lists them")
