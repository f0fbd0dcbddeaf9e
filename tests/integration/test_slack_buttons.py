"""The Acknowledge button in Slack: signed by Slack, an act of who pressed it, on the log like any other."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial, partialmethod
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
from incident_kit import Site
from rest_kit import Gateway, gateway

from kit import monte_carlo
from kit.lineage_runs import Graph
from kit.slack import SIGNING_SECRET, interaction, signed
from lily.log.producer import LogProducer
from lily.log.records import Record
from lily.log.topics import Topic
from lily.settings import Settings

ACKNOWLEDGE = "lily.acknowledge"


class Caught:
    """The log's end in this test: what the gateway appends is kept here, in order."""

    def __init__(self) -> None:
        self._records: list[tuple[Topic, Record]] = []
        self._offset = 0

    async def append(
        self, _log: LogProducer, records: Mapping[Topic, Sequence[Record]], _prefix: str | None = None
    ) -> None:
        self._records += [(topic, record) for topic, of_topic in records.items() for record in of_topic]

    def new(self) -> list[SimpleNamespace]:
        """What was appended since, as a consumer would see it."""
        found = []
        while self._records:
            topic, record = self._records.pop(0)
            self._offset += 1
            headers = [(name, v if isinstance(v, bytes) else str(v).encode()) for name, v in record.headers]
            told = {"topic": topic.value, "partition": 0, "offset": self._offset}
            told |= {"key": record.key, "value": record.value, "headers": headers}
            found.append(SimpleNamespace(**{name: partial(_given, value) for name, value in told.items()}))
        return found


def _given(value: Any) -> Any:
    return value


@pytest.fixture(scope="module")
def parts(shared_settings_without_log: Settings) -> Iterator[tuple[Gateway, Graph, Any]]:
    settings, caught = shared_settings_without_log, Caught()
    graph = Graph(settings.database.url.get_secret_value())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogProducer, "append", partialmethod(_append_to, caught))
        with gateway(settings) as running:
            yield running, graph, caught
    graph.close()


async def _append_to(log: LogProducer, caught: Caught, records: Any, prefix: str | None = None) -> None:
    await caught.append(log, records, prefix)


@pytest.fixture
def site(parts: tuple[Gateway, Graph, Any]) -> Site:
    return Site(*parts)


def slack(site: Site, **config: object) -> str:
    secrets = {"secret": "https://hooks.slack.com/services/T/B/x", "signing_secret": SIGNING_SECRET}
    body = {"type": "slack", "name": "slack", "secret": secrets, "config": config}
    answer = site.call("POST", f"/lily/v1/connectors/{site.tenant}", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["connector_id"])


def incident(site: Site) -> str:
    return site.report(site.connect(), monte_carlo.RULE_BREACH)


def press(site: Site, connector: str, body: bytes, headers: dict[str, str] | None = None) -> int:
    path = f"/lily/v1/webhooks/slack/{connector}"
    answer = site.api.client.post(path, content=body, headers=signed(body) if headers is None else headers)
    site.flow()
    return int(answer.status_code)


def last_step(site: Site, incident_id: str) -> tuple[str, str, str | None]:
    step = site.incident(incident_id)["timeline"][-1]
    return step["step"], step["actor"], step.get("comment")


def test_a_stranger_acts_as_the_connector_and_is_named_in_the_comment(site: Site) -> None:
    connector, about = slack(site), incident(site)
    assert press(site, connector, interaction(ACKNOWLEDGE, about)) == 200
    assert site.incident(about)["status"] == "acknowledged"
    assert last_step(site, about) == (
        "acknowledged",
        "connector/slack",
        "acknowledged in Slack by ada (U0ADA)",
    )


def test_whom_the_connector_names_acts_in_their_own_name(site: Site) -> None:
    connector, about = slack(site, people={"U0ADA": "ada"}), incident(site)
    assert press(site, connector, interaction(ACKNOWLEDGE, about)) == 200
    assert last_step(site, about)[:2] == ("acknowledged", "ada")


@pytest.mark.parametrize(
    ("roles", "active", "status"),
    [
        (["owner"], True, "acknowledged"),
        (["viewer"], True, "open"),
        (["owner"], False, "open"),
    ],
)
def test_a_person_lily_knows_does_what_their_rights_allow(
    site: Site, shared_settings_without_log: Settings, roles: list[str], active: bool, status: str
) -> None:
    with psycopg.connect(shared_settings_without_log.database.url.get_secret_value()) as connection:
        connection.execute(
            "INSERT INTO users (tenant_id, user_name, active, roles) VALUES (%s, 'grace', %s, %s)",
            [site.tenant, active, roles],
        )
    connector, about = slack(site, people={"U0GRACE": "grace"}), incident(site)
    assert press(site, connector, interaction(ACKNOWLEDGE, about, "U0GRACE", "grace")) == 200
    assert site.incident(about)["status"] == status


def test_what_slack_did_not_sign_lately_is_refused(site: Site) -> None:
    connector, about = slack(site), incident(site)
    body = interaction(ACKNOWLEDGE, about)
    other = interaction(ACKNOWLEDGE, "other")
    for headers in (
        signed(body, secret="another"),
        signed(other),
        signed(body, moment=time.time() - 301),
        signed(body, moment=time.time() + 301),
        {"content-type": "application/x-www-form-urlencoded"},
        signed(body) | {"x-slack-signature": ""},
        signed(body) | {"x-slack-request-timestamp": "-1e9"},
    ):
        assert press(site, connector, body, headers) in (400, 403)
    unknown = "00000000-0000-0000-0000-000000000000"
    assert press(site, unknown, body) == 403
    assert site.incident(about)["status"] == "open"


def test_a_connector_without_a_signing_secret_takes_nothing(site: Site) -> None:
    body = {"type": "slack", "name": "mute", "secret": "https://hooks.slack.com/services/T/B/x"}
    connector = site.call("POST", f"/lily/v1/connectors/{site.tenant}", json=body).json()["connector_id"]
    pressed = interaction(ACKNOWLEDGE, incident(site))
    assert press(site, connector, pressed, signed(pressed, secret="")) == 403


def test_another_tenants_incident_is_not_there(site: Site, parts: tuple[Gateway, Graph, Any]) -> None:
    other = Site(*parts)
    about = incident(other)
    assert press(site, slack(site), interaction(ACKNOWLEDGE, about)) == 200
    assert other.incident(about)["status"] == "open"


def test_the_same_request_again_is_the_same_event(site: Site) -> None:
    connector, about = slack(site), incident(site)
    body = interaction(ACKNOWLEDGE, about)
    assert [press(site, connector, body) for _ in range(2)] == [200, 200]
    assert [step["step"] for step in site.incident(about)["timeline"]] == ["opened", "acknowledged"]


def test_what_is_no_press_of_a_button_is_malformed(site: Site) -> None:
    connector = slack(site)
    for body in (b"", b"payload=", b"payload=[]", urlencode({"payload": json.dumps({"user": 1})}).encode()):
        assert press(site, connector, body) == 400
    assert press(site, connector, interaction("lily.open", "")) == 200
