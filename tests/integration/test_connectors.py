"""Connectors: registered, listed, changed and removed, with secrets that never come out again."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from rest_kit import Gateway, problem
from typer.testing import CliRunner

from kit.eventually import eventually
from kit.operators import operator_of
from lily.apps.cli import app

CONNECTORS = "/lily/v1/connectors/acme"
BODY = {"type": "monte-carlo", "name": "mc", "secret": "a shared secret", "config": {"account_id": "a"}}
GOOD_KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def api(running: Gateway) -> Gateway:
    running.execute("DELETE FROM connectors")
    running.execute("DELETE FROM secrets")
    return running


def test_a_connector_is_registered_and_its_secret_is_never_shown_again(api: Gateway) -> None:
    made = api.call("POST", CONNECTORS, json=BODY)
    assert made.status_code == 201
    document = made.json()
    assert (document["type"], document["name"], document["config"]) == ("monte-carlo", "mc", BODY["config"])
    assert document["secrets"] == ["secret"]
    place = f"{CONNECTORS}/{document['connector_id']}"
    assert made.headers["location"] == place
    shown = [made, api.call("GET", place), api.call("GET", CONNECTORS)]
    assert all(BODY["secret"] not in answer.text for answer in shown)
    assert shown[2].json()["connectors"] == [shown[1].json()] == [document]
    [(sealed,)] = api.fetch("SELECT ciphertext FROM secrets")
    assert str(BODY["secret"]).encode() not in sealed


def test_removing_a_connector_forgets_its_secrets(api: Gateway) -> None:
    made = api.call("POST", CONNECTORS, json=BODY).json()
    assert api.call("DELETE", f"{CONNECTORS}/{made['connector_id']}").status_code == 204
    assert api.fetch("SELECT FROM secrets") == []
    problem(api.call("DELETE", f"{CONNECTORS}/{made['connector_id']}"), 404, "not_found")


def test_a_secret_is_replaced_without_being_shown(api: Gateway) -> None:
    body = {"type": "slack", "name": "s", "secret": {"secret": "one", "signing_secret": "two"}}
    made = api.call("POST", CONNECTORS, json=body).json()
    place = f"{CONNECTORS}/{made['connector_id']}"
    change = {"secret": {"signing_secret": None, "secret": "three"}, "is_disabled": True, "name": "t"}
    now = api.call("PATCH", place, json=change).json()
    assert (now["secrets"], now["is_disabled"], now["name"]) == (["secret"], True, "t")
    problem(api.call("PATCH", place, json={"secret": {"secret": None}}), 422, "invalid_input")


@pytest.mark.parametrize(
    ("body", "moved"),
    [
        (
            {"type": "postgres", "config": {"host": "db.example.org", "database": "shop", "user": "lily"}},
            [{"host": "evil.example.org"}, {"user": "other"}, {"port": 1}, {"require_auth": "password"}],
        ),
        (
            {"type": "slack", "secret": {"secret": "xoxb-1", "signing_secret": "two"}},
            [{"api_url": "https://evil.example.org/"}],
        ),
    ],
)
def test_a_stored_secret_goes_nowhere_else_unless_it_is_given_again(
    body: dict[str, Any], moved: list[dict[str, Any]], api: Gateway
) -> None:
    body = {"name": "moved", "secret": "kept", "config": {}} | body
    place = f"{CONNECTORS}/{api.call('POST', CONNECTORS, json=body).json()['connector_id']}"
    for change in moved:
        config = body["config"] | change
        refused = api.call("PATCH", place, json={"config": config})
        problem(refused, 422, "invalid_input")
        assert "give each again in the same request" in refused.text
        assert api.call("GET", place).json()["config"] == body["config"]
    again = {"config": body["config"] | moved[0], "secret": body["secret"]}
    assert api.call("PATCH", place, json=again).status_code == 200
    assert api.call("PATCH", place, json={"config": again["config"], "name": "other"}).status_code == 200


@pytest.mark.parametrize(
    ("kind", "secret"),
    [
        ("webhook", "whsec_YWJj"),
        ("webhook", "whsec_not base64 at all, but long enough for it"),
        ("webhook", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        ("webhook", {"secret": GOOD_KEY, "previous_secret": "whsec_YWJj"}),
        ("webhook", {"secret": GOOD_KEY, "client_key": "no certificate"}),
        ("slack", "xoxb 1"),
        ("slack", "https://user:password@hooks.slack.com/services/T/B/X"),
        ("slack", "ftp://hooks.slack.com/"),
    ],
)
def test_a_secret_that_cannot_be_one_is_refused_when_it_is_given(
    kind: str, secret: Any, api: Gateway
) -> None:
    config = {"url": "https://hooks.example.org/"} if kind == "webhook" else {}
    body = {"type": kind, "name": "n", "secret": secret, "config": config}
    problem(api.call("POST", CONNECTORS, json=body), 422, "invalid_input")
    good = GOOD_KEY if kind == "webhook" else "xoxb-1"
    made = api.call("POST", CONNECTORS, json=body | {"secret": good}).json()
    place = f"{CONNECTORS}/{made['connector_id']}"
    problem(api.call("PATCH", place, json={"secret": secret}), 422, "invalid_input")


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "carrier-pigeon"},
        {"secret": {}},
        {"secret": {"secret": "a", "other": "hidden thing"}},
        {"config": {"text": "x" * 70_000}},
        {"config": []},
        {"name": ""},
        {"extra": 1},
    ],
)
def test_what_cannot_be_a_connector_is_refused_without_repeating_the_secret(
    wrong: dict[str, object], api: Gateway
) -> None:
    answer = api.call("POST", CONNECTORS, json=BODY | wrong)
    problem(answer, 422, "invalid_input")
    assert "a shared secret" not in answer.text
    assert "hidden thing" not in answer.text


def test_a_name_is_used_once(api: Gateway) -> None:
    first = api.call("POST", CONNECTORS, json=BODY).json()
    problem(api.call("POST", CONNECTORS, json=BODY), 409, "already_exists")
    second = api.call("POST", CONNECTORS, json=BODY | {"name": "other"}).json()
    taken = api.call("PATCH", f"{CONNECTORS}/{second['connector_id']}", json={"name": first["name"]})
    problem(taken, 409, "already_exists")


def test_only_an_administrator_of_the_tenant_has_a_say_about_its_connectors(api: Gateway) -> None:
    made = api.call("POST", CONNECTORS, json=BODY).json()
    place = f"{CONNECTORS}/{made['connector_id']}"
    other = api.token(tenant="globex")
    for method, path in (("GET", CONNECTORS), ("GET", place), ("DELETE", place)):
        problem(api.call(method, path, as_=other), 404, "not_found")
        problem(api.call(method, path, as_=api.token(role="editor")), 403, "forbidden")
    problem(api.call("POST", CONNECTORS, as_=api.token(role="steward"), json=BODY), 403, "forbidden")
    assert api.call("GET", CONNECTORS, as_=api.token(role="auditor")).status_code == 200
    foreign = place.replace("acme", "globex")
    problem(api.call("GET", foreign, as_=other), 404, "not_found")


def test_the_audit_tells_who_registered_and_removed_a_connector(api: Gateway) -> None:
    made = api.call("POST", CONNECTORS, json=BODY).json()["connector_id"]
    api.call("DELETE", f"{CONNECTORS}/{made}")
    noted = {("create", "ada"), ("delete", "ada")}
    read = "SELECT action, actor FROM audit WHERE resource_id = %s"
    eventually(lambda: {tuple(row) for row in api.fetch(read, made)} >= noted)


def test_the_operator_adds_lists_and_removes_connectors(
    api: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = operator_of(api.settings, monkeypatch)

    def lily(*arguments: str, stdin: str = "") -> str:
        return run("connector", *arguments, "--tenant", "acme", stdin=stdin)

    made = lily(
        "add", "slack", "alerts", "--config", '{"channel": "#data"}', "--secret-file", "-", stdin="xoxb"
    )
    [listed] = lily("list").splitlines()
    assert json.loads(listed)["connector_id"] == made.strip()
    assert "xoxb" not in listed
    assert api.call("GET", f"{CONNECTORS}/{made.strip()}").json()["config"] == {"channel": "#data"}
    lily("remove", made.strip())
    assert lily("list") == ""
    result = CliRunner().invoke(app, ["connector", "remove", str(uuid4()), "--tenant", "acme"])
    assert result.exit_code == 1
