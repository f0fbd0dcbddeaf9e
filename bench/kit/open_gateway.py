"""The gateway as it would be if it asked nobody who they are and let everybody do everything: a measure."""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import uvicorn
from fastapi import FastAPI, Request

from lily.access.calls import authenticate
from lily.access.decisions import Action, Decision, Resource
from lily.access.principals import Principal
from lily.apps import gateway
from lily.apps.listeners import http_options
from lily.domain.conditions import Circumstances
from lily.settings import load_settings

T = TypeVar("T")

_EVERYBODY = Principal("bench", "everybody", frozenset({"owner"}))
_YES = Decision(True, ())


class OpenAccess:
    async def refresh(self, tenant_id: str) -> None:
        """Nothing is known, so nothing is old."""

    async def settle(self, _tenant_id: str, attempt: Callable[[OpenAccess], Awaitable[T]]) -> T:
        return await attempt(self)

    def decide(self, *_: Principal | Action | Resource | Circumstances) -> Decision:
        return _YES

    def may_ever(self, *_: Principal | Action) -> Decision:
        return _YES

    def sees_containers(self, *_: Principal | Action) -> bool:
        return False


def worker_app() -> FastAPI:
    """Called by uvicorn, once in every process that serves."""
    app = gateway.worker_app()
    app.state.access = OpenAccess()
    app.dependency_overrides[authenticate] = _everybody
    return app


async def _everybody(request: Request) -> Principal:
    request.state.principal = _EVERYBODY
    return _EVERYBODY


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    data_dir = parser.parse_args().data_dir.absolute()
    os.environ[gateway.DATA_DIR_VARIABLE] = str(data_dir)
    options = http_options(load_settings(data_dir).gateway)
    uvicorn.run("bench.kit.open_gateway:worker_app", factory=True, **options)


if __name__ == "__main__":
    main()
