"""The published contract is the one the gateway has, and nothing of it is open by accident."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.routing import Match

from lily.access.calls import Authenticating
from lily.apps.gateway import build_app
from lily.repositories.keyrings import new_key
from lily.serving.live.listeners import authenticated_listener
from lily.serving.rest.quota_gate import COUNTED, NOT_COUNTED
from lily.serving.rest.system import PUBLIC_PATHS
from lily.settings import (
    AuditSettings,
    AuthSettings,
    DatabaseSettings,
    KafkaSettings,
    LakeSettings,
    SecretsSettings,
    Settings,
    SparkSettings,
)

SNAPSHOT = Path(__file__).parents[3] / "contracts" / "openapi.json"
REFRESH = "PYTHONPATH=src python tests/unit/serving/test_openapi.py"


def make_app() -> FastAPI:
    settings = Settings(
        data_dir=Path("/nowhere"),
        kafka=KafkaSettings(bootstrap_servers="127.0.0.1:9"),
        database=DatabaseSettings(url="postgresql://127.0.0.1:9/none", gateway_password="none"),  # type: ignore[arg-type]
        lake=LakeSettings(warehouse="/nowhere"),
        spark=SparkSettings(checkpoints="/nowhere"),
        auth=AuthSettings(secret="a secret of at least thirty-two bytes"),  # type: ignore[arg-type]
        audit=AuditSettings(key="a key of this test"),  # type: ignore[arg-type]
        secrets=SecretsSettings(keys=new_key("test")),  # type: ignore[arg-type]
    )
    return build_app(settings)


@pytest.fixture(scope="module")
def app() -> FastAPI:
    return make_app()


def contract(app: FastAPI) -> dict[str, Any]:
    document = json.loads(json.dumps(app.openapi()))
    document["info"]["version"] = "0"  # every release would change the snapshot
    return document


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for operation in methods.values():
            yield path, operation


def callables(dependant: Dependant) -> Iterator[Any]:
    yield dependant.call
    for inner in dependant.dependencies:
        yield from callables(inner)


def authenticates(each: object) -> bool:
    return isinstance(each, Authenticating) and type(each).__call__ is Authenticating.__call__


def test_every_route_is_authenticated_or_listed_as_public(app: FastAPI) -> None:
    for route in app.routes:
        path = getattr(route, "path", "")
        protected = (isinstance(route, APIRoute) and any(map(authenticates, callables(route.dependant)))) or (
            isinstance(route, APIWebSocketRoute) and authenticated_listener in callables(route.dependant)
        )
        assert protected != (path in PUBLIC_PATHS), f"{path} must be either authenticated or public"


def test_what_is_refused_over_quota_before_it_is_looked_at_is_what_routes_count(app: FastAPI) -> None:
    for route in app.routes:
        if isinstance(route, APIRoute):
            counting = {"_CallFor", "_Admitted"}
            counts = any(type(call).__name__ in counting for call in callables(route.dependant))
            gated = route.path.startswith(COUNTED) and not route.path.startswith(NOT_COUNTED)
            assert counts or not gated, route.path


def test_no_route_is_hidden_by_one_before_it(app: FastAPI) -> None:
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    for route in routes:
        path = re.sub(r"\{[^}]+\}", "1", route.path)
        for method in route.methods:
            scope = {"type": "http", "method": method, "path": path, "headers": []}
            answering = next(each for each in routes if each.matches(scope)[0] is Match.FULL)
            assert answering is route, f"{method} {path} is answered by {answering.path}"


def test_the_contract_is_the_published_one(app: FastAPI) -> None:
    published = json.loads(SNAPSHOT.read_text())
    assert contract(app) == published, f"if this is intended, refresh the snapshot: {REFRESH}"


def test_the_contract_is_openapi_3_1_and_says_how_to_log_in(app: FastAPI) -> None:
    document = contract(app)
    assert document["openapi"].startswith("3.1")
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    for path, operation in operations(document):
        assert ("security" in operation) == (path not in PUBLIC_PATHS), path


def test_operation_ids_are_unique_and_every_operation_declares_problems(app: FastAPI) -> None:
    found = list(operations(contract(app)))
    ids = [operation["operationId"] for _, operation in found]
    assert len(ids) == len(set(ids))
    for _, operation in found:
        assert "application/problem+json" in operation["responses"]["default"]["content"]
        assert "422" not in operation["responses"]


def test_every_answer_in_json_has_a_schema(app: FastAPI) -> None:
    without = [
        (operation["operationId"], status, media)
        for _, operation in operations(contract(app))
        for status, answer in operation["responses"].items()
        for media, content in answer.get("content", {}).items()
        if not content.get("schema")
    ]
    assert without == [], "an answer without a schema keeps to the contract whatever it is"


def test_every_reference_leads_somewhere(app: FastAPI) -> None:
    document = contract(app)
    text = json.dumps(document)
    assert text.count('"$ref"') == text.count('"$ref": "#/components/schemas/')
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= set(document["components"]["schemas"])


if __name__ == "__main__":
    SNAPSHOT.parent.mkdir(exist_ok=True)
    SNAPSHOT.write_text(json.dumps(contract(make_app()), indent=2, ensure_ascii=False) + "\n")
