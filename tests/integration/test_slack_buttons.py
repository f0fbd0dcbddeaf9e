"""The Acknowledge button in Slack: signed by Slack, an act of who pressed it, on the log like any other."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial, partialmethod
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from incident_kit import Site
from rest_kit import Gateway, gateway

from kit import monte_carlo
from kit.eventually import eventually
from kit.lineage_runs import Graph
from kit.slack import SIGNING_SECRET, TOKEN, fake_slack, interaction, signed
from lily.domain.notifications import notification_of
from lily.log.producer import LogProducer
from lily.log.records import Record
from lily.log.topics import Topic
from lily.settings import Settings, TargetSettings

ACKNOWLEDGE = "lily.acknowledge"
SNOOZE = "lily.snooze"


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
    settings = settings.model_copy(update={"targets": TargetSettings(allow="127.0.0.0/8")})
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


def slack(site: Site, secret: str = "https://hooks.slack.com/services/T/B/x", **config: object) -> str:
    secrets = {"secret": secret, "signing_secret": SIGNING_SECRET}
    body = {"type": "slack", "name": "slack", "secret": secrets, "config": config}
    answer = site.call("POST", f"/lily/v1/connectors/{site.tenant}", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["connector_id"])


def known(site: Site) -> str:
    """A connector that knows who U0ADA is, an owner."""
    person(site, "ada", ["owner"])
    return slack(site, people={"U0ADA": "ada"})


def person(site: Site, name: str, roles: list[str], active: bool = True) -> None:
    row = {"tenant_id": site.tenant, "user_name": name, "active": active, "roles": roles}
    site.api.insert("users", row)


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


def test_a_stranger_does_nothing_is_told_what_to_do_and_is_audited(site: Site) -> None:
    connector, about = slack(site), incident(site)
    with fake_slack() as workspace:
        body = interaction(ACKNOWLEDGE, about, response_url=workspace.response_url)
        assert press(site, connector, body) == 200
        assert eventually(lambda: workspace.whispers)
    assert site.incident(about)["status"] == "open"
    [told] = workspace.whispers
    assert "U0ADA" in told
    assert "`people` of the connector 'slack'" in told
    noted = "SELECT allowed, resource_id FROM audit WHERE tenant_id = %s AND actor = 'slack/U0ADA'"
    eventually(lambda: (False, about) in site.api.fetch(noted, site.tenant))


def test_who_is_known_by_name_alone_has_the_roles_lily_knows_and_no_other(site: Site) -> None:
    connector, about = slack(site, people={"U0ADA": "ada"}), incident(site)
    with fake_slack() as workspace:
        body = interaction(ACKNOWLEDGE, about, response_url=workspace.response_url)
        assert press(site, connector, body) == 200
        assert eventually(lambda: workspace.whispers)
    assert site.incident(about)["status"] == "open"
    role = {"includes": ["owner"], "users": ["ada"]}
    assert site.call("PUT", "/lily/v1/access/roles/on-call", json=role).is_success
    assert press(site, connector, interaction(ACKNOWLEDGE, about)) == 200
    assert last_step(site, about)[:2] == ("acknowledged", "ada")


def test_whom_slack_names_by_address_acts_in_their_own_name(site: Site) -> None:
    person(site, "grace@example.com", ["owner"])
    with fake_slack() as workspace:
        workspace.emails["U0GRACE"] = "grace@example.com"
        connector, about = slack(site, TOKEN, api_url=workspace.api_url), incident(site)
        assert press(site, connector, interaction(ACKNOWLEDGE, about, "U0GRACE")) == 200
    assert last_step(site, about)[:2] == ("acknowledged", "grace@example.com")


def test_snooze_puts_the_presss_own_notification_off_for_an_hour(site: Site) -> None:
    person(site, "ada", ["viewer"])
    connector, about = slack(site, people={"U0ADA": "ada", "U0BOB": "bob"}), incident(site)
    group = f"incident:{about}"
    row = {"recipient": "ada", "group_key": group, "state": "new", "count": 1, "message": "{}"}
    row |= {"first_at": datetime.now(UTC), "last_at": datetime.now(UTC), "incident_id": about}
    mine = notification_of(site.tenant, "ada", group)
    site.api.insert("notifications", row | {"tenant_id": site.tenant, "notification_id": mine})
    with fake_slack() as workspace:
        assert press(site, connector, interaction(SNOOZE, group, response_url=workspace.response_url)) == 200
        assert eventually(lambda: workspace.whispers)[0].startswith("Snoozed until")
        theirs = interaction(SNOOZE, group, "U0BOB", response_url=workspace.response_url)
        assert press(site, connector, theirs) == 200
        assert "may not READ" in eventually(lambda: workspace.whispers[1:])[0]
    [(until,)] = site.api.fetch("SELECT snoozed_until FROM notifications WHERE notification_id = %s", mine)
    assert timedelta(minutes=59) < until - datetime.now(UTC) <= timedelta(hours=1)


@pytest.mark.parametrize(
    ("roles", "active", "status"),
    [
        (["owner"], True, "acknowledged"),
        (["viewer"], True, "open"),
        (["owner"], False, "open"),
    ],
)
def test_a_person_lily_knows_does_what_their_rights_allow(
    site: Site, roles: list[str], active: bool, status: str
) -> None:
    person(site, "grace", roles, active)
    connector, about = slack(site, people={"U0GRACE": "grace"}), incident(site)
    assert press(site, connector, interaction(ACKNOWLEDGE, about, "U0GRACE", "grace")) == 200
    assert site.incident(about)["status"] == status


def test_what_slack_did_not_sign_lately_is_refused(site: Site) -> None:
    connector, about = known(site), incident(site)
    body = interaction(ACKNOWLEDGE, about)
    other = interaction(ACKNOWLEDGE, "other")
    for headers in (
        signed(body, secret="another"),
        signed(other),
        signed(body, moment=time.time() - 301),
        signed(body, moment=time.time() + 400),
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
    assert press(site, known(site), interaction(ACKNOWLEDGE, about)) == 200
    assert other.incident(about)["status"] == "open"


def test_the_same_request_again_is_the_same_event(site: Site) -> None:
    connector, about = known(site), incident(site)
    body = interaction(ACKNOWLEDGE, about)
    assert [press(site, connector, body) for _ in range(2)] == [200, 200]
    assert [step["step"] for step in site.incident(about)["timeline"]] == ["opened", "acknowledged"]


def test_what_is_no_press_of_a_button_is_malformed(site: Site) -> None:
    connector = slack(site)
    for body in (b"", b"payload=", b"payload=[]", urlencode({"payload": json.dumps({"user": 1})}).encode()):
        assert press(site, connector, body) == 400
    assert press(site, connector, interaction("lily.open", "")) == 200
