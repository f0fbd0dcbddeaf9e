"""Assets and lineage over gRPC: the same state, the same events, the same rights as over REST."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from rest_kit import Gateway, gateway, with_grpc

from lily.log.topics import Topic
from lily.serving.grpc import lineage_pb2, metadata_pb2
from lily.settings import Settings

lineage: Any = lineage_pb2
metadata: Any = metadata_pb2
LINK, GET_LINEAGE = "lineage.LineageService/IngestRelationships", "lineage.LineageService/GetLineage"
GET = "metadata.MetadataService/GetMetadata"
#: At how many assets an answer about lineage ends.
MOST = 8


@pytest.fixture
def api(settings: Settings) -> Iterator[Gateway]:
    impatient = settings.gateway.model_copy(update={"wait_seconds": 0.5, "lineage_nodes": MOST})
    with gateway(with_grpc(settings.model_copy(update={"gateway": impatient}))) as started:
        yield started


def ask(api: Gateway, method: str, request: Any, answer: Any, token: str = "") -> Any:
    with grpc.insecure_channel(f"127.0.0.1:{api.settings.gateway.grpc_port}") as channel:
        call = channel.unary_unary(
            f"/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return call(request, metadata=[("authorization", f"Bearer {token or api.token()}")], timeout=20)


def status(api: Gateway, method: str, request: Any, token: str = "") -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as refused:
        ask(api, method, request, lineage.GenericMessage, token)
    return refused.value.code()


def edge(kind: str = "derived-from") -> Any:
    return lineage.Relationship(from_asset_id="a", to_asset_id="b", relationship_type=kind)


def test_lineage_and_assets_are_answered(api: Gateway) -> None:
    api.stored(asset_id="a", asset_name="A")
    for start, end in (("a", "b"), ("b", "c")):
        row = {"tenant_id": "acme", "from_id": start, "to_id": end, "relationship_type": "uses"}
        api.insert("edges", row)
    request = lineage.GetLineageRequest(asset_id="a", depth=1)
    answer = ask(api, GET_LINEAGE, request, lineage.GetLineageResponse)
    assert [(each.from_asset_id, each.to_asset_id) for each in answer.lineage] == [("a", "b")]
    assert answer.message == "there is more than is shown"
    found = ask(api, GET, metadata.GetMetadataRequest(asset_id="a"), metadata.GetMetadataResponse)
    assert (found.success, found.metadata.asset_name, found.metadata.version) == (True, "A", 1)


def test_an_answer_ends_at_as_many_assets_as_over_rest(api: Gateway) -> None:
    api.stored(asset_id="a0", asset_name="A")
    for number in range(2 * MOST):
        ends = {"from_id": f"a{number}", "to_id": f"a{number + 1}", "relationship_type": "uses"}
        api.insert("edges", {"tenant_id": "acme"} | ends)
    request = lineage.GetLineageRequest(asset_id="a0", depth=10)
    answer = ask(api, GET_LINEAGE, request, lineage.GetLineageResponse)
    assert len(answer.lineage) < MOST
    assert answer.message == "there is more than is shown"


def test_a_relationship_becomes_the_event_it_would_be_over_rest(api: Gateway) -> None:
    assert status(api, LINK, edge()) is grpc.StatusCode.DEADLINE_EXCEEDED  # nobody applies it in this test
    said = json.loads(api.logged(Topic.METADATA_EVENTS)[-1].value())
    assert (said["from_asset_id"], said["to_asset_id"], said["source"]) == ("a", "b", "api")


def test_what_is_wrong_is_told_and_rights_are_those_of_rest(api: Gateway) -> None:
    assert not ask(api, LINK, edge("likes"), lineage.GenericMessage).success
    bad = metadata.Metadata(asset_id="a", metadata="{")
    assert not ask(api, "metadata.MetadataService/IngestMetadata", bad, metadata.IngestResponse).success
    assert status(api, LINK, edge(), api.token(role="viewer")) is grpc.StatusCode.PERMISSION_DENIED
    assert status(api, LINK, edge(), "rubbish") is grpc.StatusCode.UNAUTHENTICATED
    unknown = metadata.GetMetadataRequest(asset_id="x")
    assert status(api, GET, unknown) is grpc.StatusCode.NOT_FOUND


def test_an_update_sent_downstream_may_say_owner_terms_and_retention(api: Gateway) -> None:
    api.stored(asset_id="a", asset_name="A")
    said = lineage.Metadata(
        asset_id="a", asset_owner="ada", business_terms=["sales"], metadata='{"retention_class":"7y"}'
    )
    update = lineage.MetadataPropagationRequest(updated_metadata=said)
    refused = status(api, "lineage.LineageService/PropagateUpdateDownstream", update)
    assert refused is grpc.StatusCode.DEADLINE_EXCEEDED  # nobody applies it in this test
    event = json.loads(api.logged(Topic.STRUCTURAL_ASSETS)[-1].value())
    assert (event["asset_owner"], event["business_terms"]) == ("ada", ["sales"])
    assert event["metadata"] == {"retention_class": "7y"}
    nothing = lineage.MetadataPropagationRequest(updated_metadata=lineage.Metadata(asset_id="a"))
    path = "lineage.LineageService/PropagateUpdateDownstream"
    assert not ask(api, path, nothing, lineage.GenericMessage).success
