"""The gRPC service decides as REST does, and lets in only whom REST would."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from access_kit import emptied
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from rest_kit import Gateway, gateway, grpc_decide, with_grpc

from kit.eventually import eventually
from lily.access.audit import INSTALLATION
from lily.serving.grpc import access_pb2
from lily.settings import Settings


@pytest.fixture(scope="module")
def running(shared_settings_without_log: Settings) -> Iterator[Gateway]:
    with gateway(with_grpc(shared_settings_without_log)) as started:
        yield started


@pytest.fixture
def api(running: Gateway) -> Gateway:
    return emptied(running)


def test_decisions_over_grpc_need_the_same_credentials_and_rights_as_over_rest(api: Gateway) -> None:
    api.stored()
    question = access_pb2.Question(action="READ", asset_id="orders")
    [answer] = grpc_decide(api, api.token(role="viewer"), [question]).decisions
    assert answer.allowed
    assert not answer.reasons
    [answer] = grpc_decide(api, api.token(role="owner"), [question]).decisions
    assert answer.reasons
    [answer] = grpc_decide(api, api.token(role="nobody"), [question]).decisions
    assert not answer.allowed
    [answer] = grpc_decide(api, api.token(tenant="globex"), [question]).decisions
    assert not answer.allowed
    bob = access_pb2.Principal(subject="bob", roles=["viewer"])
    [answer] = grpc_decide(api, api.token(role="auditor"), [question], bob).decisions
    assert answer.allowed
    for token, asked, who, code in (
        ("", question, None, grpc.StatusCode.UNAUTHENTICATED),
        ("rubbish", question, None, grpc.StatusCode.UNAUTHENTICATED),
        (api.token(role="viewer"), question, bob, grpc.StatusCode.PERMISSION_DENIED),
        (api.token(), access_pb2.Question(action="EAT"), None, grpc.StatusCode.INVALID_ARGUMENT),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            grpc_decide(api, token, [asked], who)
        assert refused.value.code() == code


def test_a_stranger_who_calls_by_grpc_is_in_the_installation_s_audit(api: Gateway) -> None:
    with pytest.raises(grpc.RpcError):
        grpc_decide(api, "forged", [access_pb2.Question(action="READ", asset_id="orders")])
    noted = "SELECT count(*) FROM audit WHERE tenant_id = %s AND action = 'grpc' AND NOT allowed"
    eventually(lambda: api.fetch(noted, INSTALLATION)[0][0] >= 1)


def test_health_and_reflection_are_served(api: Gateway) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{api.settings.gateway.grpc_port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(service="lily.access.v1.AccessService"))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        service = pool.FindServiceByName("lily.access.v1.AccessService")
        assert [method.name for method in service.methods] == ["Decide"]
