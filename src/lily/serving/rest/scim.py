"""SCIM 2.0 at /scim/v2: an identity provider keeps the users and groups of its tenant here (RFC 7644)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from scim2_models import (
    Context,
    EnterpriseUser,
    Group,
    ListResponse,
    NotFoundException,
    PatchOp,
    PreconditionFailedException,
    ResourceType,
    Schema,
    ScimPolicy,
    ScimProvider,
    SearchRequest,
    ServiceProviderConfig,
    User,
)

from lily.access.calls import Call, Calling
from lily.access.decisions import Action, Resource
from lily.access.requests import read_body
from lily.access.routers import Route, add_routes
from lily.access.scopes import PROVISION
from lily.domain.errors import Forbidden
from lily.repositories.postgres.announcements import Announcements
from lily.serving.rest.scim_errors import (
    ERROR_RESPONSE,
    MEDIA_TYPE,
    ScimResponse,
    ScimRoute,
    answers_scim,
    scim_answer,
)
from lily.serving.rest.scim_resources import MAX_PAGE, Collection, ScimUser, page_of, version_of

PREFIX = "/scim/v2"
_ROUTER: dict[str, Any] = {
    "tags": ["scim"],
    "route_class": ScimRoute,
    "default_response_class": ScimResponse,
    "responses": ERROR_RESPONSE,
}
_JSON_TYPES = (MEDIA_TYPE, "application/json")
#: Okta and Entra depart from the specification in ways that confuse nothing.
_LENIENT = ScimPolicy(
    unknown=ScimPolicy.Unknown.ignore,
    remove_value_as_filter=ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=ScimPolicy.UnmatchedPathFilter.create,
)
_CONFIG = ServiceProviderConfig.model_validate(
    {
        "patch": {"supported": True},
        "bulk": {"supported": False, "maxOperations": 0, "maxPayloadSize": 0},
        "filter": {"supported": True, "maxResults": MAX_PAGE},
        "changePassword": {"supported": True},
        "sort": {"supported": False},
        "etag": {"supported": True},
        "authenticationSchemes": [
            {
                "type": "oauthbearertoken",
                "name": "Bearer token",
                "description": "An API key with the scope lily:scim, or a token of an administrator.",
                "primary": True,
            }
        ],
        "meta": {"resourceType": "ServiceProviderConfig"},
    }
)
PROVIDER = ScimProvider(
    [User, EnterpriseUser, Group],
    [ResourceType.from_resource(ScimUser), ResourceType.from_resource(Group)],
    _CONFIG,
    _LENIENT,
)


async def provisioning_call(call: Calling) -> Call:
    """The call of who may keep users and groups: by role, and by a scope that may be for this alone."""
    principal = call.principal
    if principal.scopes is not None and PROVISION not in principal.scopes:
        raise Forbidden("this credential has no scope lily:scim; use one that has")
    widened = replace(call, principal=replace(principal, scopes=None))
    await widened.require(Action.ADMINISTER, Resource(call.tenant_id, "user"))
    return call


Provisioning = Annotated[Call, Depends(provisioning_call)]


def _check_password(call: Call, resource: Any) -> None:
    """Who may only provision must not take over an account by giving it a password."""
    scopes = call.principal.scopes
    if getattr(resource, "password", None) and scopes is not None and Action.ADMINISTER.scope not in scopes:
        raise Forbidden("a credential of lily:scim sets no passwords; use one of lily:admin as well")


@dataclass(frozen=True)
class DiscoveryRoutes:
    """What this service is and does. Everything else under the prefix is answered in SCIM's words, too."""

    collections: Sequence[Collection]

    def router(self) -> APIRouter:
        types, schemas, one, many = "/ResourceTypes", "/Schemas", answers_scim(), answers_scim(is_list=True)
        router = add_routes(
            APIRouter(prefix=PREFIX, **_ROUTER),
            Route("/ServiceProviderConfig", "GET", self.config, "getScimConfig", one),
            Route(types, "GET", self.resource_types, "listScimResourceTypes", many),
            Route(types + "/{name}", "GET", self.resource_type, "getScimResourceType", one),
            Route(schemas, "GET", self.schemas, "listScimSchemas", many),
            Route(schemas + "/{urn}", "GET", self.schema, "getScimSchema", one),
            Route("/.search", "POST", self.search, "searchScim", many),
        )
        router.add_api_route(
            "/{path:path}",
            self.nothing,
            methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            include_in_schema=False,
        )
        return router

    async def config(self, request: Request, _call: Provisioning) -> Response:
        located = _CONFIG.model_copy(deep=True)
        assert located.meta is not None
        located.meta.location = f"{_base(request)}/ServiceProviderConfig"
        return _answer(located)

    async def resource_types(self, _call: Provisioning) -> Response:
        return _answer(_listed(ResourceType, list(PROVIDER.resource_types)))

    async def resource_type(self, _call: Provisioning, name: str) -> Response:
        return _answer(_first([each for each in PROVIDER.resource_types if each.id == name], name))

    async def schemas(self, _call: Provisioning) -> Response:
        return _answer(_listed(Schema, list(PROVIDER.schemas)))

    async def schema(self, _call: Provisioning, urn: str) -> Response:
        return _answer(_first([each for each in PROVIDER.schemas if str(each.id) == urn], urn))

    async def search(self, request: Request, call: Provisioning) -> Response:
        """A page of the users and groups that match, in this order."""
        content = await read_body(request, _JSON_TYPES)
        asked = SearchRequest[ScimUser | Group].model_validate_json(
            content, scim_ctx=Context.SEARCH_REQUEST, scim_policy=_LENIENT
        )
        found = [
            each
            for collection in self.collections
            for each in await collection.scan(call.tenant_id, _base(request))
            if asked.filter is None or asked.filter.match(each)
        ]
        start, count = page_of(asked)
        page = found[start : start + count]
        return _answer(_listed(ScimUser | Group, page, len(found), start + 1), asked=asked)

    async def nothing(self, _call: Provisioning, path: str) -> Response:
        known = path.partition("/")[0] in (
            "ServiceProviderConfig",
            "ResourceTypes",
            "Schemas",
            "Users",
            "Groups",
        )
        if known:
            return scim_answer(405, "this method is not allowed here")
        raise NotFoundException(detail=f"there is nothing at {PREFIX}/{path[:100]}")


@dataclass(frozen=True)
class CollectionRoutes:
    """The routes of one resource type. A change is answered when every gateway knows of it."""

    collection: Collection
    announcements: Announcements

    def router(self) -> APIRouter:
        name = self.collection.endpoint
        each, path = name[:-1], "/{resource_id}"
        one, many, made = answers_scim(), answers_scim(is_list=True), answers_scim(201)
        return add_routes(
            APIRouter(prefix=f"{PREFIX}/{name}", **_ROUTER),
            Route("", "GET", self.list, f"listScim{name}", many),
            Route("", "POST", self.create, f"createScim{each}", made, status=201),
            Route("/.search", "POST", self.search, f"searchScim{name}", many),
            Route(path, "GET", self.get, f"getScim{each}", one),
            Route(path, "PUT", self.replace, f"replaceScim{each}", one),
            Route(path, "PATCH", self.patch, f"patchScim{each}", one),
            Route(path, "DELETE", self.delete, f"deleteScim{each}", status=204),
        )

    async def list(self, request: Request, call: Provisioning) -> Response:
        """A page of those that match `filter`."""
        asked = _search(self.collection).model_validate(dict(request.query_params), scim_policy=_LENIENT)
        return await self._found(request, call, asked)

    async def search(self, request: Request, call: Provisioning) -> Response:
        """The same, asked in a body."""
        content = await read_body(request, _JSON_TYPES)
        asked = _search(self.collection).model_validate_json(
            content, scim_ctx=Context.SEARCH_REQUEST, scim_policy=_LENIENT
        )
        return await self._found(request, call, asked)

    async def get(self, request: Request, call: Provisioning, resource_id: str) -> Response:
        resource = await self.collection.find(call.tenant_id, resource_id, _base(request))
        if resource.meta.version in _tags(request, "if-none-match"):
            return Response(status_code=304, headers={"etag": resource.meta.version})
        return self._one(request, resource)

    async def create(self, request: Request, call: Provisioning) -> Response:
        content = await read_body(request, _JSON_TYPES)
        resource = self.collection.model.model_validate_json(
            content, scim_ctx=Context.RESOURCE_CREATION_REQUEST, scim_policy=_LENIENT
        )
        _check_password(call, resource)
        made = await self.collection.create(call.tenant_id, resource)
        self._note(call, "create", made)
        return await self._settled(request, call, made, 201)

    async def replace(self, request: Request, call: Provisioning, resource_id: str) -> Response:
        content = await read_body(request, _JSON_TYPES)
        known = await self._expected(request, call, resource_id)
        resource = self.collection.model.model_validate_json(
            content, scim_ctx=Context.RESOURCE_REPLACEMENT_REQUEST, scim_policy=_LENIENT
        )
        _check_password(call, resource)
        resource.replace(known)
        resource.id = known.id
        self._note(call, "replace", resource_id)
        await self.collection.update(call.tenant_id, version_of(known), resource)
        return await self._settled(request, call, resource_id)

    async def patch(self, request: Request, call: Provisioning, resource_id: str) -> Response:
        content = await read_body(request, _JSON_TYPES)
        resource = await self._expected(request, call, resource_id)
        version = version_of(resource)
        operations: Any = PatchOp.__class_getitem__(self.collection.model)
        patch = operations.model_validate_json(
            content, scim_ctx=Context.RESOURCE_PATCH_REQUEST, scim_policy=_LENIENT
        )
        if patch.patch(resource, scim_policy=_LENIENT):
            _check_password(call, resource)
            self._note(call, "patch", resource_id)
            await self.collection.update(call.tenant_id, version, resource)
        return await self._settled(request, call, resource_id)

    async def delete(self, request: Request, call: Provisioning, resource_id: str) -> Response:
        known = await self._expected(request, call, resource_id)
        self._note(call, "delete", resource_id)
        await self.collection.delete(call.tenant_id, version_of(known), known)
        await self.announcements.wait_until_heard()
        return Response(status_code=204)

    def _note(self, call: Call, act: str, resource_id: str) -> None:
        call.notebook.write(act, (self.collection.endpoint[:-1].lower(), resource_id), True, "scim")

    async def _expected(self, request: Request, call: Call, resource_id: str) -> Any:
        """The resource to change, at the version `If-Match` expects."""
        resource = await self.collection.find(call.tenant_id, resource_id, _base(request))
        expected = _tags(request, "if-match")
        if expected and "*" not in expected and resource.meta.version not in expected:
            raise PreconditionFailedException(detail=f"it is at version {resource.meta.version}")
        return resource

    async def _settled(self, request: Request, call: Call, resource_id: str, status: int = 200) -> Response:
        await self.announcements.wait_until_heard()
        resource = await self.collection.find(call.tenant_id, resource_id, _base(request))
        return self._one(request, resource, status)

    def _one(self, request: Request, resource: Any, status: int = 200) -> Response:
        asked = _search(self.collection).model_validate(dict(request.query_params), scim_policy=_LENIENT)
        headers = {"etag": resource.meta.version, "location": str(resource.meta.location)}
        return _answer(resource, status, headers, asked)

    async def _found(self, request: Request, call: Call, asked: Any) -> Response:
        total, page = await self.collection.search(call.tenant_id, asked, _base(request))
        found = _listed(self.collection.model, page, total, asked.start_index or 1)
        return _answer(found, asked=asked)


def _search(collection: Collection) -> Any:
    return SearchRequest.__class_getitem__(collection.model)


def _listed(model: Any, resources: list[Any], total: int | None = None, start: int = 1) -> Any:
    return ListResponse.__class_getitem__(model)(
        total_results=len(resources) if total is None else total,
        start_index=start,
        items_per_page=len(resources),
        resources=resources,
    )


def _first(found: list[Any], name: str) -> Any:
    if not found:
        raise NotFoundException(detail=f"there is nothing of the id {name[:100]!r}")
    return found[0]


def _answer(
    resource: Any, status: int = 200, headers: dict[str, str] | None = None, asked: Any = None
) -> Response:
    content = resource.model_dump_json(scim_ctx=Context.RESOURCE_QUERY_RESPONSE, response_parameters=asked)
    return Response(content, status, headers, media_type=MEDIA_TYPE)


def _tags(request: Request, header: str) -> list[str]:
    return [tag.strip() for tag in request.headers.get(header, "").split(",") if tag.strip()]


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/") + PREFIX
