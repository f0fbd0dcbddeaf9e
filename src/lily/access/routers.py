"""The routes of a part of the gateway as a table: each operation, who answers it, what the contract tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fastapi import APIRouter
from fastapi.datastructures import Default, DefaultPlaceholder
from fastapi.params import Depends
from fastapi.responses import JSONResponse, Response

#: What FastAPI takes as `responses`.
Responses = dict[int | str, dict[str, Any]]


class Route(NamedTuple):
    """`gives` is the model of the JSON it answers, or its answers by status; `takes` tells what it reads."""

    path: str
    method: str
    handler: Callable[..., Any]
    operation: str
    gives: Any = None
    takes: dict[str, Any] | None = None
    status: int = 200
    response_class: type[Response] | DefaultPlaceholder = Default(JSONResponse)
    dependencies: Sequence[Depends] = ()

    @property
    def responses(self) -> Responses | None:
        if self.gives is None or isinstance(self.gives, dict):
            return self.gives
        return {self.status: {"model": self.gives}}


def add_routes(router: APIRouter, *routes: Route) -> APIRouter:
    """The router, with these routes in this order: the first whose path fits answers."""
    for route in routes:
        router.add_api_route(
            route.path,
            route.handler,
            methods=[route.method],
            operation_id=route.operation,
            responses=route.responses,
            openapi_extra=route.takes,
            status_code=route.status,
            response_class=route.response_class,
            dependencies=route.dependencies,
        )
    return router
