"""Changes over the WebSocket: all of them, in order, once, to those who may see them, while they may."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import live_kit
import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient
from live_kit import next_of, subscribed
from rest_kit import Gateway, gateway
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from kit.eventually import eventually
from kit.told import tell, told
from lily.access.tokens import OwnToken, mint_session_token, mint_token
from lily.domain.changes import ChangeKind
from lily.log.producer import client_config
from lily.log.topics import Topic
from lily.serving.live import connections, feeds, hubs, readers
from lily.settings import KafkaSettings, Settings


@pytest.fixture(scope="module")
def running(shared_settings: Settings) -> Iterator[Gateway]:
    allowed = shared_settings.gateway.model_copy(update={"cors_origins": "https://console.example"})
    with gateway(shared_settings.model_copy(update={"gateway": allowed})) as started:
        yield started


class Tenant:
    """A tenant of its own, whose changes are told on the log."""

    def __init__(self, api: Gateway) -> None:
        self.api, self.name = api, f"t{uuid4().hex[:12]}"

    def store(self, asset_id: str, **columns: Any) -> None:
        self.api.stored(tenant_id=self.name, asset_id=asset_id, asset_name=asset_id, **columns)

    def tell(self, *asset_ids: str | None, kind: ChangeKind = ChangeKind.ASSET, **said: Any) -> None:
        tell(self.api.settings.kafka, *(told(each, kind, self.name, **said) for each in asset_ids))

    def token(self, role: str = "viewer", subject: str = "ada") -> str:
        return self.api.token(self.name, role, subject)

    def connected(self, token: str | None = None, **options: Any) -> ClientConnection:
        return live_kit.connected(self.api, self.token() if token is None else token, **options)

    def listening(
        self, token: str | None = None, cursor: str = "", **filters: list[str]
    ) -> AbstractContextManager[ClientConnection]:
        return live_kit.listening(self.api, self.token() if token is None else token, cursor, filters)

    def cursor(self) -> str:
        """Where the log is now."""
        return live_kit.cursor_now(self.api, self.token())

    def missed(self, cursor: str, token: str | None = None, **filters: list[str]) -> list[str]:
        """What was told since then."""
        return live_kit.missed(self.api, token or self.token(), cursor, filters)


@pytest.fixture
def tenant(running: Gateway) -> Tenant:
    return Tenant(running)


def ids(live: ClientConnection, count: int) -> list[str]:
    return [next_of(live)["metadata_id"] for _ in range(count)]


def test_a_change_is_told_as_the_contract_says(tenant: Tenant) -> None:
    tenant.store("orders", data_source="pg")
    with tenant.listening() as live:
        subscribed(live)
        tenant.tell("orders", version=3, event_id="0198a7a0-0000-7000-8000-000000000001", cause="c1")
        message = next_of(live)
    assert message.pop("cursor")
    assert datetime.fromisoformat(message.pop("timestamp")).tzinfo is not None
    assert message == {
        "type": "update",
        "metadata_id": "orders",
        "entity_type": "table",
        "change": "updated",
        "kind": "asset.updated",
        "detail": {"outcome": "updated", "changed": ["metadata"], "version": 3},
        "event_id": "0198a7a0-0000-7000-8000-000000000001",
        "cause": "c1",
        "severity": "info",
    }


def test_tags_and_incidents_are_told_as_what_they_are(tenant: Tenant) -> None:
    tenant.store("orders")
    incident = {"title": "Volume", "status": "open", "severity": "SEV-1"}
    with tenant.listening() as live:
        subscribed(live)
        tenant.tell("orders", kind=ChangeKind.TAGS, added=["PII"], removed=[])
        assert next_of(live)["detail"] == {"added": ["PII"], "removed": []}
        tenant.tell("orders", kind=ChangeKind.INCIDENT, outcome="opened", incident_id="i1", incident=incident)
        message = next_of(live)
    assert (message["kind"], message["severity"]) == ("incident.opened", "SEV-1")
    assert (message["change"], message["detail"]["incident_id"]) == ("updated", "i1")


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        ("created", "created"),
        ("restored", "created"),
        ("updated", "updated"),
        ("deleted", "deleted"),
        ("purged", "deleted"),
    ],
)
def test_what_happened_is_one_of_three_words(tenant: Tenant, outcome: str, word: str) -> None:
    tenant.store("orders")
    with tenant.listening() as live:
        subscribed(live)
        tenant.tell("orders", outcome=outcome)
        assert next_of(live)["change"] == word


def test_who_says_nothing_is_told_everything(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_SUBSCRIBE_SECONDS", 0.2)
    for name in ("a", "b"):
        tenant.store(name)
    with tenant.connected() as live:
        subscribed(live)
        tenant.tell("a", "b")
        assert sorted(ids(live, 2)) == ["a", "b"]
        live.send(json.dumps({"type": "subscribe", "filters": {"metadata_ids": ["b"]}}))
        live.send('{"type":"ping"}')
        assert next_of(live) == {"type": "pong"}, "what is said later counts, and is heard"
        tenant.tell("a", "b")
        assert ids(live, 1) == ["b"]


def test_a_cursor_that_comes_too_late_is_refused_rather_than_ignored(tenant: Tenant) -> None:
    with tenant.listening() as live:
        live.send(json.dumps({"type": "subscribe", "cursor": subscribed(live)}))
        assert closed(live) == 4409


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"metadata_ids": ["b"]}, {"b"}),
        ({"entity_types": ["column"]}, {"c"}),
        ({"tags": ["PII"]}, {"b"}),
        ({"changes": ["asset.created"]}, {"c"}),
        ({"changes": ["asset"]}, {"a", "b", "c"}),
        ({"data_sources": ["pg"], "entity_types": ["table"]}, {"a"}),
        ({"severities": ["SEV-1"]}, set()),
    ],
)
def test_a_reader_gets_what_it_asked_for(
    tenant: Tenant, filters: dict[str, list[str]], expected: set[str]
) -> None:
    tenant.store("a", data_source="pg")
    tenant.store("b", user_tags=["PII"])
    tenant.store("c", asset_type="column")
    cursor = tenant.cursor()
    tenant.tell("a", "b")
    tenant.tell("c", outcome="created")
    assert set(tenant.missed(cursor, **filters)) == expected


def test_filters_can_be_changed_on_the_way(tenant: Tenant) -> None:
    for name in ("a", "b"):
        tenant.store(name)
    with tenant.listening(metadata_ids=["a"]) as live:
        subscribed(live)
        tenant.tell("b", "a")
        assert ids(live, 1) == ["a"]
        live.send(json.dumps({"type": "subscribe", "filters": {"metadata_ids": ["b"]}}))
        live.send('{"type":"ping"}')
        assert next_of(live) == {"type": "pong"}
        tenant.tell("a", "b")
        assert ids(live, 1) == ["b"]


def test_who_comes_back_with_a_cursor_misses_nothing_and_sees_nothing_twice(tenant: Tenant) -> None:
    names = [f"a{number}" for number in range(60)]
    for name in names:
        tenant.store(name)
    seen: list[str] = []
    cursor = tenant.cursor()
    for chunk in range(0, 60, 15):
        tenant.tell(*names[chunk : chunk + 10])
        with tenant.listening(cursor=cursor) as live:
            tenant.tell(*names[chunk + 10 : chunk + 15])
            while len(seen) < chunk + 12:  # go away in the middle
                message = next_of(live)
                cursor = message["cursor"]
                seen += [message["metadata_id"]] if "metadata_id" in message else []
    seen += tenant.missed(cursor)
    assert sorted(seen) == sorted(names)


def test_changes_of_one_asset_stay_in_order_across_a_resume(tenant: Tenant) -> None:
    tenant.store("a")
    cursor = tenant.cursor()
    for version in range(20):
        tenant.tell("a", version=version)
    with tenant.listening(cursor=cursor) as live:
        subscribed(live)
        tenant.tell("a", version=20)
        versions = []
        while len(versions) < 21:
            message = next_of(live)
            versions += [message["detail"]["version"]] if "metadata_id" in message else []
    assert versions == list(range(21))


def test_a_cursor_is_of_one_tenant_and_cannot_be_made_up(tenant: Tenant, running: Gateway) -> None:
    foreign = Tenant(running).cursor()
    for cursor in (foreign, "made up", foreign[:-2]):
        with tenant.listening(cursor=cursor) as live:
            assert closed(live) == 4400


def test_a_cursor_older_than_the_log_is_refused_with_what_to_do(tenant: Tenant) -> None:
    cursor = tenant.cursor()
    tenant.tell("a", "b", "c", "d")
    forget_log(tenant.api.settings.kafka)
    with tenant.listening(cursor=cursor) as live:
        code, reason = closed_because(live)
    assert code == 4410
    assert "without a cursor" in reason


def test_a_slow_reader_is_closed_and_comes_back_while_others_are_not_kept_waiting(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "MOST_WAITING", 200)
    tenant.store("a")
    cursor, count = tenant.cursor(), 0
    with tenant.connected(max_queue=1) as slow, tenant.listening() as quick:
        slow.send(json.dumps({"type": "subscribe"}))
        subscribed(quick)
        for _ in range(30):  # the slow one takes nothing: what is sent to it fills the buffers on the way
            tenant.tell(*["a"] * 50, cause="x" * 20_000)
            count += len(ids(quick, 50))
        assert closed(slow, 60) == 4413
    assert len(tenant.missed(cursor)) == count


def test_a_connection_ends_with_its_token(tenant: Tenant) -> None:
    secret = tenant.api.settings.auth.secret.get_secret_value()
    # Tokens are honoured for half a minute more, as clocks differ; this one has two seconds of that left.
    with tenant.listening(mint_token(secret, tenant.name, "viewer", "ada", -28)) as live:
        subscribed(live)
        code, reason = closed_because(live, 10)
    assert code == 4401
    assert "expired" in reason


def test_a_connection_ends_when_its_session_is_revoked(tenant: Tenant) -> None:
    session_id = str(uuid4())
    row = {"tenant_id": tenant.name, "session_id": session_id, "subject": "ada", "roles": ["viewer"]}
    tenant.api.insert("sessions", row | {"groups": [], "expires_at": datetime(2100, 1, 1, tzinfo=UTC)})
    token = OwnToken(tenant.name, "ada", "", time.time() + 600, session_id=session_id)
    secret = tenant.api.settings.auth.secret.get_secret_value()
    with tenant.listening(mint_session_token(secret, token)) as live:
        subscribed(live)
        tenant.api.execute("UPDATE sessions SET revoked_at = now() WHERE session_id = %s", session_id)
        assert closed(live, 10) == 4401


def test_a_policy_is_followed_from_the_moment_it_is_acknowledged(tenant: Tenant) -> None:
    for name in ("open", "secret"):
        tenant.store(name)
    with tenant.listening() as live:
        subscribed(live)
        tenant.tell("secret")
        assert ids(live, 1) == ["secret"]
        policy = {"role": "viewer", "access_type": "READ", "effect": "forbid", "asset_id": "secret"}
        answer = tenant.api.call("POST", "/lily/v1/access/policies", as_=tenant.token("owner"), json=policy)
        assert answer.status_code == 201
        tenant.tell("secret", "open")
        tenant.tell("secret", kind=ChangeKind.INCIDENT, outcome="opened", incident_id="i")
        tenant.tell("open", kind=ChangeKind.TAGS, added=["x"])
        assert ids(live, 2) == ["open", "open"]


def test_what_nobody_knows_any_more_is_told_to_those_alone_who_may_see_everything(tenant: Tenant) -> None:
    cursor = tenant.cursor()
    policy = {"user_id": "sam", "access_type": "READ", "effect": "forbid", "scope": "tag", "value": "pii"}
    owner = tenant.token("owner")
    assert tenant.api.call("POST", "/lily/v1/access/policies", as_=owner, json=policy).status_code == 201
    tenant.tell("purged", outcome="purged")
    tenant.tell(None, kind=ChangeKind.INCIDENT, outcome="opened", incident_id="unattached")
    assert tenant.missed(cursor) == ["purged"]
    assert tenant.missed(cursor, token=tenant.token(subject="sam")) == []


def test_an_incident_attached_to_nothing_is_told_to_owners_and_stewards_alone(tenant: Tenant) -> None:
    cursor = tenant.cursor()
    tenant.tell(None, kind=ChangeKind.INCIDENT, outcome="opened", incident_id="unattached")
    found = {role: tenant.missed(cursor, token=tenant.token(role)) for role in ("owner", "steward", "viewer")}
    assert found == {"owner": ["unattached"], "steward": ["unattached"], "viewer": []}


def test_a_tagged_asset_is_noted_each_time_it_is_told(tenant: Tenant) -> None:
    tenant.store("secret", user_tags=["pii"])
    cursor = tenant.cursor()
    tenant.tell("secret", "secret")
    assert tenant.missed(cursor) == ["secret", "secret"]
    noted = "SELECT FROM audit WHERE tenant_id = %s AND action = 'read' AND resource_id = 'secret'"
    eventually(lambda: len(tenant.api.fetch(noted, tenant.name)) == 2)


def test_nothing_of_another_tenant_is_told(tenant: Tenant, running: Gateway) -> None:
    other = Tenant(running)
    for each in (tenant, other):
        each.store("a")
    mine, theirs = tenant.cursor(), other.cursor()
    tenant.tell("a")
    assert tenant.missed(mine) == ["a"]
    assert other.missed(theirs) == []


@pytest.mark.parametrize("token", ["", "nonsense", "lily_key_x"])
def test_a_stranger_is_told_to_log_in(tenant: Tenant, token: str) -> None:
    with tenant.connected(token) as live:
        assert closed(live) == 4401


def test_who_may_read_nothing_is_let_in_nowhere(tenant: Tenant) -> None:
    for role in ("auditor", "engine", "nobody"):
        with tenant.connected(tenant.token(role)) as live:
            assert closed(live) == 4403


def test_a_page_of_another_site_is_not_let_in(tenant: Tenant) -> None:
    for origin in ("https://evil.example", "null", "https://console.example.evil.example"):
        with pytest.raises(InvalidStatus, match="403"):
            tenant.connected(headers={"origin": origin})
    here = str(tenant.api.client.base_url).rstrip("/")
    for origin in ("https://console.example", here):
        with tenant.connected(headers={"origin": origin}) as live:
            live.send('{"type":"subscribe"}')
            subscribed(live)


def test_a_page_sends_its_token_as_a_protocol(tenant: Tenant) -> None:
    offered = ["lily.v1", f"bearer.{tenant.token()}"]
    with tenant.connected("", subprotocols=offered) as live:
        assert live.subprotocol == "lily.v1"
        live.send('{"type":"subscribe"}')
        subscribed(live)


@pytest.mark.parametrize(
    "text", ["", "{", '{"type":"x"}', '{"type":"subscribe","filters":{"colour":["red"]}}']
)
def test_what_cannot_be_read_closes_the_connection(tenant: Tenant, text: str) -> None:
    with tenant.connected() as live:
        live.send(text)
        assert closed(live) == 4400


def test_without_the_log_a_reader_is_told_to_try_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "_START_SECONDS", 1.0)
    nowhere = settings.model_copy(update={"kafka": KafkaSettings(bootstrap_servers="127.0.0.1:9")})
    with gateway(nowhere) as api, Tenant(api).listening() as live:
        assert closed(live, 30) == 1013


def test_connections_of_a_tenant_are_limited(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "MOST_READERS", 1)
    with tenant.listening() as first:
        subscribed(first)
        with tenant.listening() as second:
            assert closed(second) == 4429
    assert eventually(tenant.cursor, ignoring=(ConnectionClosed,)), "who has gone makes room"


def closed_because(live: ClientConnection, seconds: float = 20) -> tuple[int, str]:
    deadline = time.monotonic() + seconds
    try:
        while True:
            live.recv(max(0.1, deadline - time.monotonic()))
    except ConnectionClosed as ended:
        if ended.rcvd is None:
            raise
        return ended.rcvd.code, ended.rcvd.reason


def closed(live: ClientConnection, seconds: float = 20) -> int:
    """The code of the close, whatever is sent before it."""
    return closed_because(live, seconds)[0]


def forget_log(kafka: KafkaSettings) -> None:
    """Have the broker delete all that was told, as it does after a week."""
    topic = Topic.METADATA_CHANGES.under(kafka.topic_prefix)
    admin = AdminClient(client_config(kafka))
    partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
    whole = [TopicPartition(topic, partition, OFFSET_END) for partition in partitions]
    for deleted in admin.delete_records(whole).values():
        deleted.result(10)
