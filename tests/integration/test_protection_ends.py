"""Who may write an asset does not thereby end its protection: that is for who administers the rules."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import grpc
import pytest
from httpx import Response
from rest_kit import ASSETS, Gateway, gateway, problem, with_grpc

from lily.log.topics import Topic
from lily.serving.grpc import lineage_pb2, metadata_pb2
from lily.settings import Settings

CLASSIFIED = f"{ASSETS}/governance/classification"
EMAIL = {"asset_name": "email", "asset_type": "column", "data_source": "shop", "external_id": "db.s.t.email"}
#: asset_name, asset_type, data_source, external_id, user_tags, metadata (`lily.domain.assets.Field`)
SAID = 1 | 2 | 16 | 32 | 256 | 512


@pytest.fixture
def api(settings: Settings) -> Iterator[Gateway]:
    impatient = settings.gateway.model_copy(update={"wait_seconds": 0.2})
    with gateway(with_grpc(settings.model_copy(update={"gateway": impatient}))) as running:
        rule = {"tag": "PII", "scope": "all", "includes_contained": True}
        assert running.call("POST", "/lily/v1/protection/rules", json=rule).status_code == 201
        stored(running, "email", **EMAIL, user_tags=["PII"])
        stored(running, "copy", asset_type="column", external_id="db.s.u.email", data_source="shop")
        stored(running, "people", asset_type="table", user_tags=["PII"])
        stored(running, "inside", asset_type="column", external_id="db.s.people.name", data_source="shop")
        stored(
            running,
            "found",
            asset_type="column",
            external_id="db.s.t.age",
            metadata='{"connector_id": "c-1"}',
        )
        stored(running, "free", asset_type="column", external_id="db.s.t.free", data_source="shop")
        effective(running, "email", is_asserted=True)
        effective(running, "people", is_asserted=True)
        effective(running, "copy", is_asserted=False, via_from="email", via_type="derived-from")
        edge(running, "email", "copy", "derived-from")
        edge(running, "people", "inside", "contains")
        yield running


def stored(api: Gateway, asset_id: str, **columns: Any) -> None:
    api.stored(asset_id=asset_id, **{"asset_name": asset_id, "fields": SAID} | columns)


def effective(api: Gateway, asset_id: str, **columns: Any) -> None:
    fact = {"tenant_id": "acme", "asset_id": asset_id, "tag": "PII", "is_partial": False}
    more = {"since": datetime(2026, 1, 1, tzinfo=UTC), "cause": str(uuid4())}
    api.insert("effective_tags", fact | more | columns)


def edge(api: Gateway, from_id: str, to_id: str, kind: str) -> None:
    row = {"tenant_id": "acme", "from_id": from_id, "to_id": to_id, "relationship_type": kind}
    api.insert("edges", row)


def between(from_id: str, to_id: str, **more: Any) -> dict[str, Any]:
    return {"from_asset_id": from_id, "to_asset_id": to_id, "relationship_type": "derived-from"} | more


ENDING: dict[str, tuple[str, str, Any]] = {
    "untag": ("DELETE", f"{CLASSIFIED}/email?tag=PII", None),
    "untag for one source": ("DELETE", f"{CLASSIFIED}/email?tag=PII&source=user", None),
    "opt out": ("PUT", f"{CLASSIFIED}/copy/opt-out", {"tags": ["PII"]}),
    "patch tags": ("PATCH", f"{ASSETS}/email", {"tags": []}),
    "post without the tag": ("POST", ASSETS, EMAIL | {"asset_id": "email", "tags": ["other"]}),
    "put without tags": ("PUT", f"{ASSETS}/email", EMAIL),
    "entity": ("PUT", "/metadata/email", {"attributes": {"tags": []}}),
    "batch": ("POST", ASSETS, {"assets": [EMAIL | {"asset_id": "email", "tags": []}]}),
    "untag the table": ("PATCH", f"{ASSETS}/people", {"tags": None}),
    "delete the edge": ("DELETE", f"{ASSETS}/lineage/email?to_asset_id=copy", None),
    "block the edge": ("POST", f"{ASSETS}/lineage", between("email", "copy", blocked_tags=["*"])),
    "call it masked": (
        "POST",
        f"{ASSETS}/lineage",
        {"relationships": [between("email", "copy", transformation={"type": "DIRECT", "masking": True})]},
    ),
    "call it indirect": (
        "POST",
        f"{ASSETS}/lineage",
        between("email", "copy", transformation={"type": "INDIRECT"}),
    ),
    "take it out of its table": ("DELETE", f"{ASSETS}/lineage/people?to_asset_id=inside", None),
    "rename": ("PATCH", f"{ASSETS}/email", {"external_id": "db.s.t.other"}),
    "rename what came by an edge": ("PATCH", f"{ASSETS}/copy", {"external_id": None}),
    "rename what is in a tagged table": ("PATCH", f"{ASSETS}/inside", {"data_source": "elsewhere"}),
    "no column any more": ("PATCH", f"{ASSETS}/email", {"asset_type": "table"}),
    "move to a connector": ("PATCH", f"{ASSETS}/email", {"metadata": {"connector_id": "c-2"}}),
    "another type of data": ("PATCH", f"{ASSETS}/email", {"metadata": {"data_type": "date"}}),
    "move what a connector found": ("PATCH", f"{ASSETS}/found", {"metadata": {"connector_id": None}}),
    "rename what a connector found": ("PATCH", f"{ASSETS}/found", {"external_id": "db.s.t.other"}),
    "new in a connector's name": (
        "POST",
        ASSETS,
        EMAIL | {"asset_id": "new", "metadata": {"connector_id": "c-1"}},
    ),
    "entity that says its connector": ("PUT", "/metadata/email", {"attributes": {"connector_id": "c-2"}}),
}
HARMLESS: dict[str, tuple[str, str, Any]] = {
    "describe": ("PATCH", f"{ASSETS}/email", {"description": "x"}),
    "tag more": ("PATCH", f"{ASSETS}/email", {"tags": ["PII", "more"]}),
    "untag something else": ("DELETE", f"{CLASSIFIED}/email?tag=more", None),
    "opt out of something else": ("PUT", f"{CLASSIFIED}/copy/opt-out", {"tags": ["more"]}),
    "opt in": ("DELETE", f"{CLASSIFIED}/copy/opt-out?tag=PII", None),
    "say it again": ("POST", ASSETS, EMAIL | {"asset_id": "email"}),
    "what the source says": ("PATCH", f"{ASSETS}/email", {"tags": [], "tag_origin": "source"}),
    "tags of what has it by an edge": ("PATCH", f"{ASSETS}/copy", {"tags": ["other"]}),
    "block something else": ("POST", f"{ASSETS}/lineage", between("email", "copy", blocked_tags=["more"])),
    "a new indirect edge": (
        "POST",
        f"{ASSETS}/lineage",
        between("email", "people", transformation={"type": "INDIRECT"}),
    ),
    "rename what nothing protects": ("PATCH", f"{ASSETS}/free", {"external_id": "db.s.t.other"}),
}


def write(api: Gateway, role: str, method: str, path: str, body: Any) -> Response:
    sent = {"json": body} if body is not None else {}
    return api.call(method, path, as_=api.token(role=role), headers={"prefer": "respond-async"}, **sent)


def test_an_editor_ends_no_protection_whatever_the_way_and_a_steward_may(api: Gateway) -> None:
    allowed = [way for way, told in ENDING.items() if write(api, "editor", *told).status_code != 403]
    assert allowed == []
    assert api.logged() == api.logged(Topic.LEAF_ASSETS) == api.logged(Topic.METADATA_EVENTS) == []
    for told in ENDING.values():
        detail = problem(write(api, "editor", *told), 403, "forbidden")
        assert "owners and stewards" in str(detail), "who is refused is told who may"
    # A patch of metadata waits for its event, which nothing applies here: it is accepted and not seen.
    refused = [
        way for way, told in ENDING.items() if write(api, "steward", *told).status_code not in (202, 504)
    ]
    assert refused == []


def test_an_editor_writes_what_ends_no_protection(api: Gateway) -> None:
    refused = [way for way, told in HARMLESS.items() if write(api, "editor", *told).status_code != 202]
    assert refused == []


def test_only_who_may_administer_rules_hides_what_has_the_tag_of_one(api: Gateway) -> None:
    policy = {"role": "editor", "access_type": "DELETE", "scope": "all"}
    assert api.call("POST", "/lily/v1/access/policies", json=policy).status_code == 201
    for path in (f"{ASSETS}/email", "/metadata/email"):
        problem(write(api, "editor", "DELETE", path, None), 403, "forbidden")
        assert write(api, "steward", "DELETE", path, None).status_code in (200, 202)
    assert write(api, "editor", "DELETE", f"{ASSETS}/free", None).status_code == 202


def test_how_a_protecting_tag_spreads_takes_a_credential_for_administration(
    api: Gateway,
) -> None:
    key = {"name": "k", "roles": ["steward"], "scopes": ["lily:write"], "expires_in_days": 1}
    made = api.call("POST", "/lily/v1/api-keys", json=key).json()["api_key"]
    definition = {"json": {"propagate": {"lineage": False}}, "headers": {"prefer": "respond-async"}}
    tags = f"{ASSETS}/governance/tags"
    for tag in ("PII", "*"):
        problem(api.call("PUT", f"{tags}/{tag}", as_=made, **definition), 403, "forbidden")
    assert api.call("PUT", f"{tags}/other", as_=made, **definition).status_code == 202
    steward = api.token(role="steward")
    assert api.call("PUT", f"{tags}/PII", as_=steward, **definition).status_code == 202


def test_an_editor_ends_no_protection_over_grpc(api: Gateway) -> None:
    metadata: Any = metadata_pb2
    lineage: Any = lineage_pb2
    said = metadata.Metadata(asset_id="email", tags=["other"], asset_name="email", asset_type="column")
    moved = metadata.Metadata(asset_id="email", external_id="db.s.t.other")
    masked = lineage.Relationship(from_asset_id="email", to_asset_id="copy", relationship_type="derived-from")
    for method, request in (
        ("metadata.MetadataService/IngestMetadata", said),
        ("metadata.MetadataService/UpdateMetadata", updating("email", said)),
        ("metadata.MetadataService/UpdateMetadata", updating("email", moved)),
    ):
        assert status(api, method, request, "editor") is grpc.StatusCode.PERMISSION_DENIED
        assert status(api, method, request, "steward") is grpc.StatusCode.DEADLINE_EXCEEDED
    link = "lineage.LineageService/IngestRelationships"
    assert status(api, link, masked, "editor") is grpc.StatusCode.DEADLINE_EXCEEDED, "it stops nothing"


def updating(asset_id: str, said: Any) -> Any:
    messages: Any = metadata_pb2
    return messages.MetadataUpdateRequest(asset_id=asset_id, updatedMetadata=said)


def status(api: Gateway, method: str, request: Any, role: str) -> grpc.StatusCode:
    with grpc.insecure_channel(f"127.0.0.1:{api.settings.gateway.grpc_port}") as channel:
        call = channel.unary_unary(
            f"/{method}", request_serializer=type(request).SerializeToString, response_deserializer=bytes
        )
        with pytest.raises(grpc.RpcError) as ended:
            call(request, metadata=[("authorization", f"Bearer {api.token(role=role)}")], timeout=20)
    return ended.value.code()
