"""Policies, roles and scraper policies over REST: checked, in force at once, explained and planned."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from access_kit import emptied
from rest_kit import ASSETS, Gateway, problem

CONTROL = "/lily/v1/metadata/access-control"
POLICIES = "/lily/v1/access/policies"
ROLES = "/lily/v1/access/roles"
SCRAPERS = "/lily/v1/access/scraper-policies"
READ_PII = {"role": "analyst", "access_type": "READ", "scope": "tag", "value": "pii"}


@pytest.fixture
def api(running: Gateway) -> Gateway:
    return emptied(running)


def created(api: Gateway, **policy: Any) -> dict[str, Any]:
    answer = api.call("POST", CONTROL, json=policy)
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


def status(api: Gateway, role: str, path: str = f"{ASSETS}/orders", method: str = "GET", **more: Any) -> int:
    return api.call(method, path, as_=api.token(role=role), **more).status_code


def test_a_policy_is_in_force_when_it_is_answered_and_gone_when_its_removal_is(api: Gateway) -> None:
    api.stored(user_tags=["pii"])
    assert status(api, "analyst") == 403
    policy = created(api, **READ_PII)
    assert status(api, "analyst") == 200
    one = f"{POLICIES}/{policy['policy_id']}"
    assert api.call("GET", one).json() == policy
    assert api.call("PUT", one, json=READ_PII | {"value": "gold"}).json()["value"] == "gold"
    assert status(api, "analyst") == 404
    assert api.call("PUT", one, json=READ_PII).status_code == 200
    assert status(api, "analyst") == 200
    assert api.call("DELETE", one).status_code == 204
    assert status(api, "analyst") == 403
    problem(api.call("GET", one), 404, "not_found")
    problem(api.call("DELETE", one), 404, "not_found")
    problem(api.call("PUT", one, json=READ_PII), 404, "not_found")


def test_the_policies_of_an_asset_are_those_that_reach_it_in_any_way(api: Gateway) -> None:
    api.stored(user_tags=["pii"], data_source="snow")
    edge = {"tenant_id": "acme", "from_id": "sales", "to_id": "orders", "relationship_type": "contains"}
    api.insert("edges", edge)
    reaching = [
        created(api, user_id="bob", access_type="READ", asset_id="orders"),
        created(api, group="it", access_type="READ", scope="contained", asset_id="sales"),
        created(api, **READ_PII),
        created(api, role="analyst", access_type="DELETE", effect="forbid", scope="type", value="table"),
        created(api, role="analyst", access_type="WRITE", scope="source", value="snow"),
        created(api, role="analyst", access_type="READ", scope="all"),
    ]
    created(api, role="analyst", access_type="READ", scope="tag", value="gold")
    created(api, role="analyst", access_type="READ", asset_id="other")
    found = api.call("GET", f"{CONTROL}/orders").json()
    assert found["asset_id"] == "orders"
    assert {each["policy_id"] for each in found["policies"]} == {each["policy_id"] for each in reaching}


def test_policies_are_listed_in_pages(api: Gateway) -> None:
    wanted = {created(api, **READ_PII)["policy_id"] for _ in range(5)}
    found, token = [], ""
    while True:
        page = api.call("GET", POLICIES, params={"page_size": 2, "page_token": token}).json()
        found += [each["policy_id"] for each in page["policies"]]
        token = page["next_page_token"]
        if not token:
            break
    assert len(found) == 5
    assert set(found) == wanted


INVALID = [
    ({"access_type": "READ", "asset_id": "x"}, "", "exactly one of"),
    (READ_PII | {"user_id": "bob"}, "", "exactly one of"),
    (READ_PII | {"value": None}, "/value", "is required"),
    (READ_PII | {"asset_id": "x"}, "/asset_id", "left out"),
    (READ_PII | {"access_type": "PURGE"}, "/access_type", "READ"),
    (READ_PII | {"effect": "maybe"}, "/effect", "allow"),
    (READ_PII | {"surprise": 1}, "/surprise", "not permitted"),
    (READ_PII | {"conditions": {"when": "1 == 1"}}, "/conditions", "unknown when"),
    (READ_PII | {"conditions": {"time": "always"}}, "/conditions/time", "list"),
    (READ_PII | {"conditions": {"time": [{"zone": "Mars/Base"}]}}, "/conditions/time/0/zone", "zone"),
    (READ_PII | {"conditions": {"time": [{"from": "25:00"}]}}, "/conditions/time/0/from", "08:30"),
    (
        READ_PII | {"conditions": {"network": {"in": ["10.0.0.1/8"]}}},
        "/conditions/network/in/0",
        "host bits",
    ),
    (
        READ_PII | {"conditions": {"purpose": ["__import__('os')\n"]}},
        "/conditions/purpose/0",
        "printable",
    ),
]


def test_an_invalid_policy_is_refused_where_it_is_wrong(api: Gateway) -> None:
    for policy, pointer, says in INVALID:
        document = problem(api.call("POST", CONTROL, json=policy), 422, "invalid_input")
        assert [error["pointer"] for error in document["errors"]] == [pointer], policy
        assert says in document["detail"]
    assert api.call("GET", POLICIES).json()["policies"] == []


def test_only_those_who_administer_policies_change_them(api: Gateway) -> None:
    one = f"{POLICIES}/{created(api, **READ_PII)['policy_id']}"
    for role, reads, writes in (("steward", 200, 201), ("auditor", 200, 403), ("editor", 403, 403)):
        assert status(api, role, one) == reads
        assert status(api, role, CONTROL, "POST", json=READ_PII) == writes
    for role in ("steward", "editor", "auditor"):
        assert status(api, role, f"{ROLES}/king", "PUT", json={"includes": ["owner"]}) == 403
        assert status(api, role, f"{SCRAPERS}/bots", "PUT", json={"allowed_columns": ["x"]}) == 403
    stranger = api.token(tenant="globex")
    problem(api.call("GET", one, as_=stranger), 404, "not_found")
    problem(api.call("DELETE", one, as_=stranger), 404, "not_found")


def test_a_role_gives_its_members_what_it_and_the_roles_it_includes_may(api: Gateway) -> None:
    api.stored()
    nobody = api.token(role="nobody", subject="bob")
    assert api.call("GET", f"{ASSETS}/orders", as_=nobody).status_code == 403
    body = {"includes": ["viewer"], "users": ["bob"], "groups": ["sales"], "description": "reads"}
    put = api.call("PUT", f"{ROLES}/analyst", json=body)
    assert put.status_code == 200
    assert {name: put.json()[name] for name in body} == body
    assert api.call("GET", f"{ASSETS}/orders", as_=nobody).status_code == 200
    assert [each["role"] for each in api.call("GET", ROLES).json()["roles"]] == ["analyst"]
    assert api.call("PUT", f"{ROLES}/analyst", json=body | {"users": []}).status_code == 200
    assert api.call("GET", f"{ASSETS}/orders", as_=nobody).status_code == 403
    assert api.call("DELETE", f"{ROLES}/analyst").status_code == 204
    problem(api.call("GET", f"{ROLES}/analyst"), 404, "not_found")
    problem(api.call("PUT", f"{ROLES}/viewer", json={"includes": ["owner"]}), 422, "invalid_input")


def test_a_scraper_asks_before_it_touches_a_column(api: Gateway) -> None:
    api.stored(asset_id="orders.id", asset_type="column")
    api.stored(asset_id="orders.total", asset_type="column")
    body = {"allowed_columns": ["orders.id"]}
    assert api.call("PUT", f"{SCRAPERS}/nightly", json=body).json()["allowed_columns"] == ["orders.id"]
    bot = {"subject": "bot", "roles": ["scraper"], "groups": ["nightly"]}
    asked = [
        {"action": action, "asset_id": column}
        for column in ("orders.id", "orders.total")
        for action in ("READ", "WRITE")
    ]

    def decisions() -> list[bool]:
        question = {"principal": bot, "decisions": asked}
        answer = api.call("POST", "/lily/v1/access/decisions", json=question).json()
        return [each["allowed"] for each in answer["decisions"]]

    assert decisions() == [True, True, False, False]
    assert api.call("DELETE", f"{SCRAPERS}/nightly").status_code == 204
    assert decisions() == [False] * 4


def test_decisions_about_others_are_for_readers_of_policies(api: Gateway) -> None:
    question = {"principal": {"subject": "bob"}, "decisions": [{"action": "READ", "asset_id": "x"}]}
    problem(
        api.call("POST", "/lily/v1/access/decisions", as_=api.token(role="viewer"), json=question),
        403,
        "forbidden",
    )


def test_conditions_hold_or_not_as_the_call_is_made(api: Gateway) -> None:
    api.stored()
    conditions = {"purpose": ["support"], "network": {"in": ["127.0.0.0/8"]}}
    created(api, role="analyst", access_type="READ", scope="all", conditions=conditions)
    for purpose, expected in (("support", 200), ("fun", 404), ("", 404)):
        assert status(api, "analyst", headers={"lily-purpose": purpose}) == expected
    forged = {"lily-purpose": "support", "x-forwarded-for": "10.0.0.1"}
    assert status(api, "analyst", headers=forged) == 200  # nobody but a known proxy changes the address


def test_an_explanation_names_the_policies_that_decided_and_those_that_did_not(api: Gateway) -> None:
    api.stored(user_tags=["pii"])
    allowing = created(api, **READ_PII)
    forbidding = created(api, user_id="bob", access_type="READ", effect="forbid", asset_id="orders")
    conditional = created(api, **READ_PII, conditions={"purpose": ["support"]})
    question = {
        "principal": {"subject": "bob", "roles": ["analyst"]},
        "action": "READ",
        "asset_id": "orders",
    }
    answer = api.call("POST", "/lily/v1/access/explain", json=question).json()
    assert (answer["allowed"], answer["reasons"]) == (False, [forbidding["policy_id"]])
    told = {each["policy_id"]: (each["applies"], each["decided"]) for each in answer["policies"]}
    assert told == {
        allowing["policy_id"]: (True, False),
        forbidding["policy_id"]: (True, True),
        conditional["policy_id"]: (False, False),
    }
    assert status(api, "viewer", "/lily/v1/access/explain", "POST", json=question) == 403


def test_a_plan_tells_who_gains_and_loses_what_and_changes_nothing(api: Gateway) -> None:
    for number in range(3):
        api.stored(asset_id=f"pii-{number}", user_tags=["pii"])
    api.stored(asset_id="plain")
    policy = created(api, **READ_PII)
    body = {
        "add": [{"role": "viewer", "access_type": "READ", "effect": "forbid", "asset_id": "plain"}],
        "remove": [policy["policy_id"]],
        "roles": {"lead": {"includes": ["editor"], "users": ["bob"]}},
    }
    effects = api.call("POST", "/lily/v1/access/plan", json=body).json()["effects"]
    told = {
        (principal["name"], each["access_type"]): (each["gains"], each["loses"])
        for each in effects
        for principal in each["principals"]
    }
    assert told == {
        ("analyst", "READ"): (0, 3),
        ("viewer", "READ"): (0, 1),
        ("bob", "READ"): (4, 0),
        ("bob", "WRITE"): (4, 0),
        ("lead", "READ"): (4, 0),
        ("lead", "WRITE"): (4, 0),
    }
    [lost] = [each for each in effects if each["principals"][0]["name"] == "analyst"]
    assert lost["lost_examples"] == ["pii-0", "pii-1", "pii-2"]
    assert len(api.call("GET", POLICIES).json()["policies"]) == 1
    assert api.call("GET", ROLES).json()["roles"] == []


def test_a_plan_tells_it_of_the_people_of_the_directory_their_groups_and_scrapers(api: Gateway) -> None:
    api.stored(asset_id="plain")
    api.stored(asset_id="hidden", user_tags=["pii"])
    api.stored(asset_id="column", asset_type="column", user_tags=["pii"])
    user = {"tenant_id": "acme", "user_id": str(uuid4()), "user_name": "bob", "roles": ["viewer", "analyst"]}
    group = {"tenant_id": "acme", "group_id": str(uuid4()), "display_name": "staff"}
    member = {"tenant_id": "acme", "group_id": group["group_id"], "user_id": user["user_id"]}
    gone = {"tenant_id": "acme", "user_name": "carl", "roles": ["viewer"], "active": False}
    for table, row in (("users", user), ("groups", group), ("group_members", member), ("users", gone)):
        api.insert(table, row)

    def told(**change: Any) -> dict[tuple[str, str, str], tuple[int, int]]:
        answer = api.call("POST", "/lily/v1/access/plan", json=change)
        assert answer.status_code == 200, answer.text
        return {
            (principal["kind"], principal["name"], each["access_type"]): (each["gains"], each["loses"])
            for each in answer.json()["effects"]
            for principal in each["principals"]
        }

    forbidding = {**READ_PII, "effect": "forbid"}
    assert told(add=[forbidding]) == {("user", "bob", "READ"): (0, 2)}, "a viewer who is an analyst, too"
    assert told(group_roles={"staff": ["editor"]}) == {
        ("user", "bob", "WRITE"): (3, 0),
        ("group", "staff", "READ"): (3, 0),
        ("group", "staff", "WRITE"): (3, 0),
    }
    assert told(scraper_policies={"shop": {"allowed_columns": ["column"]}}) == {
        ("scrapers", "shop", access_type): (1, 0) for access_type in ("READ", "WRITE", "DELETE")
    }
    assert api.call("GET", "/lily/v1/group-roles").json()["group_roles"] == {}


def test_a_list_has_filters_and_pages(api: Gateway) -> None:
    for number in range(5):
        api.stored(asset_id=f"t{number}", data_source="snow", asset_owner="ada", user_tags=["gold"])
    api.stored(asset_id="c", asset_type="column", source_tags=["pii"], user_tags=["gold"])
    api.stored(asset_id="gone", is_deleted=True)
    api.stored(asset_id="pending", asset_name=None)
    api.stored(tenant_id="globex", asset_id="theirs")

    def ids(**query: Any) -> list[str]:
        answer = api.call("GET", ASSETS, params=query)
        assert answer.status_code == 200, answer.text
        return [asset["asset_id"] for asset in answer.json()["assets"]]

    tables = [f"t{number}" for number in range(5)]
    assert ids() == ["c", *tables]
    assert ids(deleted="true") == ["gone"]
    assert ids(deleted="any") == ["c", "gone", *tables]
    assert ids(type="column") == ["c"]
    assert ids(source="snow") == tables
    assert ids(owner="ada", tag="gold") == tables
    assert ids(tag="pii") == ["c"]
    assert ids(type="x' OR true --") == []
    first = api.call("GET", ASSETS, params={"page_size": 4}).json()
    token = first["next_page_token"]
    assert [asset["asset_id"] for asset in first["assets"]] == ["c", "t0", "t1", "t2"]
    assert ids(page_size=4, page_token=token) == ["t3", "t4"]
    problem(api.call("GET", ASSETS, params={"page_token": token, "type": "table"}), 400, "malformed_request")


def test_what_is_forbidden_to_a_user_is_forbidden_to_their_keys(api: Gateway) -> None:
    api.stored(user_tags=["pii"])
    ada = api.token(role="viewer", subject="ada")
    made = api.call("POST", "/lily/v1/api-keys", as_=ada, json={"name": "script", "roles": ["viewer"]})
    key = made.json()["api_key"]
    assert api.call("GET", f"{ASSETS}/orders", as_=key).status_code == 200
    created(api, user_id="ada", access_type="READ", scope="tag", value="pii", effect="forbid")
    assert api.call("GET", f"{ASSETS}/orders", as_=ada).status_code == 404
    assert api.call("GET", f"{ASSETS}/orders", as_=key).status_code == 404


def test_what_is_forbidden_to_a_role_of_its_owner_is_forbidden_to_a_key_without_that_role(
    api: Gateway,
) -> None:
    api.stored(user_tags=["pii"])
    ada = api.token(role="viewer", subject="ada")
    assert api.call("PUT", f"{ROLES}/contractor", json={"users": ["ada"]}).status_code == 200
    made = api.call("POST", "/lily/v1/api-keys", as_=ada, json={"name": "batch", "roles": ["viewer"]})
    key = made.json()["api_key"]
    assert api.call("GET", f"{ASSETS}/orders", as_=key).status_code == 200
    created(api, role="contractor", access_type="READ", scope="tag", value="pii", effect="forbid")
    assert api.call("GET", f"{ASSETS}/orders", as_=key).status_code == 404
    created(api, role="contractor", access_type="WRITE", asset_id="orders")
    question = {"decisions": [{"action": "WRITE", "asset_id": "orders"}]}
    answer = api.call("POST", "/lily/v1/access/decisions", as_=key, json=question).json()
    assert not answer["decisions"][0]["allowed"]


def test_a_key_has_of_its_owner_what_is_forbidden_and_not_what_is_allowed(api: Gateway) -> None:
    api.stored()
    ada = api.token(role="viewer", subject="ada")
    made = api.call("POST", "/lily/v1/api-keys", as_=ada, json={"name": "reader", "roles": ["viewer"]})
    created(api, user_id="ada", access_type="WRITE", asset_id="orders")
    question = {"action": "WRITE", "asset_id": "orders"}
    asked = [
        api.call("POST", "/lily/v1/access/decisions", as_=who, json={"decisions": [question]}).json()
        for who in (ada, made.json()["api_key"])
    ]
    assert [answer["decisions"][0]["allowed"] for answer in asked] == [True, False]


def test_what_a_tag_hid_then_is_hidden_in_history_when_the_tag_is_gone(api: Gateway) -> None:
    api.stored()
    api.applied(uuid4(), "created", asset_name="Orders", asset_type="table", created_at=datetime.now(UTC))
    created(api, role="viewer", access_type="READ", scope="tag", value="pii", effect="forbid")
    past = f"{ASSETS}/orders?history=true"
    assert len(api.call("GET", past, as_=api.token(role="viewer")).json()["history"]) == 1
    for added, removed in (["pii"], []), ([], ["pii"]):
        api.execute(
            "INSERT INTO tag_changes (tenant_id, asset_id, event_id, cause, added, removed, reasons,"
            " applied_at) SELECT tenant_id, asset_id, gen_random_uuid(), event_id, %s, %s, '{}',"
            " applied_at + interval '1 hour' * cardinality(%s::text[])"
            " FROM changes WHERE asset_id = 'orders'",
            added,
            removed,
            removed,
        )
    assert api.call("GET", past, as_=api.token(role="viewer")).json()["history"] == []
    assert len(api.call("GET", past).json()["history"]) == 1
