"""From a signed webhook to a message in Slack and back, through the public interfaces of an installation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest
from httpx import Response

from kit import monte_carlo
from kit.eventually import eventually
from kit.platform import Platform, Tenant
from kit.slack import SIGNING_SECRET, TOKEN, FakeSlack, fake_slack, interaction, signed

SECRET = "the secret Monte Carlo signs with here"
#: orders → daily → board; a dashboard at the end.
CHAIN = ("orders", "daily", "board")


@pytest.fixture(scope="module")
def slack() -> Iterator[FakeSlack]:
    with fake_slack() as running:
        yield running


class Watched(Tenant):
    """A tenant with a chain of lineage, a Monte Carlo that reports and a Slack that is told."""

    def __init__(self, platform: Platform, slack: FakeSlack) -> None:
        super().__init__(platform)
        self.slack = slack
        self.reporter = self.connector("monte-carlo", "mc", SECRET)
        config = {"api_url": slack.api_url, "channel": "C0DATA", "people": {"U0ADA": "ada"}}
        secrets = {"secret": TOKEN, "signing_secret": SIGNING_SECRET}
        self.told = self.connector("slack", "ops", secrets, config)
        self.make_chain()
        self.make_person("ada", "editor")

    def api(
        self, method: str, path: str, *, subject: str = "ada", role: str = "owner", **more: Any
    ) -> Response:
        token = self.platform.token(self.name, role, subject)
        headers = {"authorization": f"Bearer {token}"} | more.pop("headers", {})
        answer: Response = self.platform.client.request(method, f"/lily/v1{path}", headers=headers, **more)
        return answer

    def connector(self, type_: str, name: str, secret: Any, config: dict[str, Any] | None = None) -> str:
        body = {"type": type_, "name": name, "secret": secret, "config": config or {}}
        answer = self.api("POST", f"/connectors/{self.name}", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["connector_id"])

    def make_person(self, name: str, role: str) -> None:
        """Somebody the directory knows: a press in Slack is decided on what it gives them."""
        schema = "urn:ietf:params:scim:schemas:core:2.0:User"
        person = {"schemas": [schema], "userName": name, "active": True}
        token = self.platform.token(self.name)
        headers = {"authorization": f"Bearer {token}", "content-type": "application/scim+json"}
        made = self.platform.client.post("/scim/v2/Users", content=json.dumps(person), headers=headers)
        assert made.status_code == 201, made.text
        given = self.api("PUT", f"/users/{made.json()['id']}/roles", json={"roles": [role]})
        assert given.is_success, given.text

    def make_chain(self) -> None:
        types = ("table", "table", "dashboard")
        bodies = [
            {"asset_id": name, "asset_name": name, "asset_type": type_, "external_id": f"shop:{name}"}
            for name, type_ in zip(CHAIN, types, strict=True)
        ]
        assert self.call("POST", json={"assets": bodies}).is_success
        edges = [
            {"from_asset_id": above, "to_asset_id": below, "relationship_type": "derived-from"}
            for above, below in pairwise(CHAIN)
        ]
        assert self.call("POST", "/lineage", json={"relationships": edges}).is_success

    def subscribe(self, subject: str = "ada", role: str = "owner", **body: Any) -> dict[str, Any]:
        answer = self.api("POST", "/subscriptions", subject=subject, role=role, json=body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def report(self, body: bytes) -> str:
        """Monte Carlo's webhook; the id of the incident."""
        path = f"/lily/v1/webhooks/monte-carlo/{self.reporter}"
        answer = self.platform.client.post(path, content=body, headers=monte_carlo.signed(SECRET, body))
        assert answer.status_code == 200, answer.text
        return str(answer.json()["incidents"][0])

    def press(self, incident: str, user: str = "U0ADA") -> Response:
        """Somebody presses the button in Slack."""
        body = interaction("lily.acknowledge", incident, user=user)
        path = f"/lily/v1/webhooks/slack/{self.told}"
        answer: Response = self.platform.client.post(path, content=body, headers=signed(body))
        return answer

    def incident(self, incident_id: str) -> dict[str, Any]:
        answer = self.api("GET", f"/incidents/{incident_id}")
        return dict(answer.json()) if answer.status_code == 200 else {}

    def notification(self, incident_id: str, **who: str) -> dict[str, Any]:
        answer = self.api("GET", f"/notifications?incident_id={incident_id}", **who)
        assert answer.status_code == 200, answer.text
        return next(iter(answer.json()["notifications"]), {})

    def message(self, incident_id: str) -> dict[str, Any]:
        """What Slack shows of it."""
        return next((m for m in self.slack.roots() if incident_id in json.dumps(m)), {})


@pytest.fixture(scope="module")
def shop(platform: Platform, slack: FakeSlack) -> Watched:
    return Watched(platform, slack)


def test_an_incident_goes_from_webhook_to_slack_and_its_acknowledgement_everywhere(shop: Watched) -> None:
    shop.subscribe(
        name="What the board rests on",
        selection={"changes": ["incident"], "upstream_of": ["board"]},
        target={"connector": "ops"},
    )
    alert = str(uuid4())
    incident = shop.report(monte_carlo.created(alert, "shop:orders"))

    eventually(lambda: shop.incident(incident).get("asset_id") == "orders")
    assert [each["incident_id"] for each in shop.get("orders").json()["incidents"]] == [incident]
    assert [each["incident_id"] for each in shop.get("board").json()["affected_upstream"]] == [incident]

    message = eventually(lambda: shop.message(incident))
    assert "path: orders → daily → board" in json.dumps(message, ensure_ascii=False)
    notification = eventually(lambda: shop.notification(incident))
    assert (notification["state"], notification["asset_id"]) == ("new", "orders")

    assert shop.press(incident).is_success
    eventually(lambda: shop.incident(incident)["status"] == "acknowledged")
    eventually(lambda: shop.notification(incident)["state"] == "acknowledged")
    updated = eventually(
        lambda: [m for m in shop.slack.roots() if m["ts"] == message["ts"] and m.get("edits")]
    )
    assert "lily.acknowledge" not in json.dumps(updated[0]["blocks"])

    shop.report(monte_carlo.update(alert, "resolved"))
    eventually(lambda: shop.notification(incident)["state"] == "resolved")
    assert shop.get("board").json()["affected_upstream"] == []


def test_a_button_that_slack_did_not_sign_lately_does_nothing(shop: Watched) -> None:
    incident = shop.report(monte_carlo.created(str(uuid4()), "shop:orders"))
    eventually(lambda: shop.incident(incident))
    body = interaction("lily.acknowledge", incident)
    path = f"/lily/v1/webhooks/slack/{shop.told}"
    forged = shop.platform.client.post(path, content=body, headers=signed(body, "not Slack's secret"))
    late = shop.platform.client.post(path, content=body, headers=signed(body, moment=1_700_000_000))
    assert (forged.status_code, late.status_code) == (403, 403)
    assert shop.incident(incident)["status"] == "open"


def test_why_it_was_told_is_rule_change_and_path(shop: Watched) -> None:
    shop.subscribe(
        "eva", "editor", name="Below orders", selection={"changes": ["incident"], "downstream_of": ["orders"]}
    )
    incident = shop.report(monte_carlo.created(str(uuid4()), "shop:daily"))
    who = {"subject": "eva", "role": "editor"}
    notification = eventually(lambda: shop.notification(incident, **who))
    why = shop.api("GET", f"/notifications/{notification['notification_id']}/why", **who).json()["because"]
    assert [(each["subscription"], each["change"], each["path"]) for each in why] == [
        ("Below orders", "incident.opened", ["orders", "daily"])
    ]


def test_a_webhook_that_comes_ten_times_is_one_incident_and_one_message(shop: Watched) -> None:
    shop.subscribe(
        name="Incidents of orders",
        selection={"changes": ["incident"], "assets": ["orders"]},
        target={"connector": "ops", "options": {"channel": "C0OTHER"}},
    )
    body = monte_carlo.created(str(uuid4()), "shop:orders")
    incidents = {shop.report(body) for _ in range(10)}
    [incident] = incidents
    after = shop.report(monte_carlo.created(str(uuid4()), "shop:orders"))

    def told() -> list[str]:
        return [json.dumps(message) for message in shop.slack.messages("C0OTHER")]

    eventually(lambda: any(after in text for text in told()))
    assert sum(incident in text for text in told()) == 1
    assert shop.notification(incident)["count"] == 1


def test_what_is_hidden_from_a_subscriber_is_not_told_to_them(shop: Watched) -> None:
    shop.subscribe("vic", "viewer", selection={"changes": ["incident"]})
    policy = {"role": "viewer", "access_type": "READ", "effect": "forbid", "asset_id": "daily"}
    assert shop.api("POST", "/access/policies", json=policy).status_code == 201
    hidden = shop.report(monte_carlo.created(str(uuid4()), "shop:daily"))
    shown = shop.report(monte_carlo.created(str(uuid4()), "shop:orders"))
    eventually(lambda: shop.notification(shown, subject="vic", role="viewer"))
    eventually(lambda: shop.notification(hidden))  # its owner's subscriptions are told
    assert shop.notification(hidden, subject="vic", role="viewer") == {}


def test_a_tag_that_reaches_many_assets_is_one_notification(shop: Watched) -> None:
    columns = [f"wide-{number}" for number in range(60)]
    bodies = [{"asset_id": each, "asset_name": each, "asset_type": "table"} for each in ("wide", *columns)]
    assert shop.call("POST", json={"assets": bodies}).is_success
    edges = [
        {"from_asset_id": "wide", "to_asset_id": each, "relationship_type": "derived-from"}
        for each in columns
    ]
    assert shop.call("POST", "/lineage", json={"relationships": edges}).is_success
    spreads = {"propagate": {"lineage": True}}
    assert shop.call("PUT", "/governance/tags/Storm", json=spreads).is_success
    shop.subscribe("tim", "editor", selection={"changes": ["tags"], "tags": ["Storm"]})
    tagged = {"asset_id": "wide", "tags": ["Storm"]}
    assert shop.call("POST", "/governance/classification", json=tagged).is_success

    def counts() -> list[int]:
        page = shop.api("GET", "/notifications", subject="tim", role="editor").json()
        return [each["count"] for each in page["notifications"]]

    eventually(lambda: sum(counts()) >= 61)
    assert counts() == [61]


def test_a_notice_by_hand_and_a_test_of_a_subscription_arrive(shop: Watched) -> None:
    one = shop.subscribe("bob", "editor", selection={"assets": ["board"]}, target={"connector": "ops"})
    notice = {"asset_id": "board", "title": "Moving <!channel> tonight", "text": "{asset_name}"}
    assert shop.call("POST", "/notifications", json=notice).status_code == 202
    tested = shop.api("POST", f"/subscriptions/{one['subscription_id']}/test", subject="bob", role="editor")
    assert tested.status_code == 202

    def titles() -> set[str]:
        page = shop.api("GET", "/notifications", subject="bob", role="editor").json()
        return {each["message"]["title"] for each in page["notifications"]}

    eventually(lambda: titles() == {"Moving <!channel> tonight", "Test of a subscription"})
    eventually(lambda: any("Test of a subscription" in str(m) for m in shop.slack.roots()))
    eventually(lambda: any("Moving" in str(m) for m in shop.slack.roots()))
    assert shop.slack.mentions == []
