"""Protection rules over REST, and what they do to which columns by the effective tags there are."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from rest_kit import Gateway, problem

RULES, COLUMNS = "/lily/v1/protection/rules", "/lily/v1/protection/columns"
CATALOG = ("warehouse", "warehouse.sales", "warehouse.sales.orders")


@pytest.fixture
def api(running: Gateway) -> Gateway:
    running.execute("TRUNCATE assets, edges, effective_tags, protection_rules, policies")
    for asset_id, asset_type in zip(CATALOG, ("database", "schema", "table"), strict=True):
        running.stored(asset_id=asset_id, asset_type=asset_type, asset_name=asset_id, data_source="pg")
    for name, data_type in (("email", "text"), ("born", "date"), ("total", "numeric")):
        running.stored(
            asset_id=f"{CATALOG[-1]}.{name}",
            asset_type="column",
            asset_name=name,
            external_id=f"{CATALOG[-1]}.{name}",
            data_source="pg",
            metadata=f'{{"data_type": "{data_type}"}}',
        )
        contain(running, CATALOG[-1], f"{CATALOG[-1]}.{name}")
    contain(running, CATALOG[0], CATALOG[1])
    contain(running, CATALOG[1], CATALOG[2])
    return running


def contain(api: Gateway, container: str, asset_id: str) -> None:
    edge = {"tenant_id": "acme", "from_id": container, "to_id": asset_id, "relationship_type": "contains"}
    api.insert("edges", edge)


def tag(api: Gateway, asset_id: str, name: str, is_partial: bool = False) -> None:
    fact = {"tenant_id": "acme", "asset_id": asset_id, "tag": name, "is_partial": is_partial}
    more = {"is_asserted": True, "since": "2026-01-01", "cause": str(uuid4())}
    api.insert("effective_tags", fact | more)


def add(api: Gateway, **body: Any) -> dict[str, Any]:
    answer = api.call("POST", RULES, json=body)
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"{RULES}/{document['rule_id']}"
    return document


def protected(api: Gateway, asset_id: str = "warehouse", **options: Any) -> dict[str, list[Any]]:
    answer = api.call("GET", f"{COLUMNS}/{asset_id}", **options)
    assert answer.status_code == 200, answer.text
    return {
        each["asset_id"].removeprefix(f"{CATALOG[-1]}."): [
            (one["rule_id"], one["effect"], one["mask"]) for one in each["protections"]
        ]
        for each in answer.json()["columns"]
    }


def test_a_rule_is_made_read_replaced_listed_and_removed(api: Gateway) -> None:
    rule = add(api, tag="PII", mask={"kind": "partial", "last": 4}, except_roles=["steward"])
    path = f"{RULES}/{rule['rule_id']}"
    assert rule["mask"] == {"kind": "partial", "first": 0, "last": 4}
    assert api.call("GET", path).json() == rule
    replaced = api.call("PUT", path, json={"tag": "PII", "effect": "deny", "except_groups": ["dpo"]}).json()
    assert (replaced["effect"], replaced["except_roles"], replaced["except_groups"]) == ("deny", [], ["dpo"])
    assert api.call("GET", RULES).json() == {"rules": [replaced]}
    assert api.call("DELETE", path).status_code == 204
    problem(api.call("GET", path), 404, "not_found")
    problem(api.call("DELETE", path), 404, "not_found")
    problem(api.call("PUT", path, json={"tag": "PII"}), 404, "not_found")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/tag"),
        ({"tag": "PII", "mask": {"kind": "blur"}}, "/mask/kind"),
        ({"tag": "PII", "scope": "source"}, "/value"),
        ({"tag": "PII", "scope": "contained", "value": "x"}, "/asset_id"),
        ({"tag": "PII", "effect": "deny", "mask": {"kind": "hash"}}, "/mask"),
        ({"tag": "PII", "masks_by_type": {"money": {"kind": "hash"}}}, "/masks_by_type/money"),
        ({"tag": "PII", "colour": "red"}, "/colour"),
    ],
)
def test_a_rule_that_means_nothing_is_refused(api: Gateway, body: dict[str, Any], pointer: str) -> None:
    answer = problem(api.call("POST", RULES, json=body), 422, "invalid_input")
    assert pointer in [error["pointer"] for error in answer["errors"]]


def test_only_who_administers_rules_changes_them_and_a_viewer_does_not_read_them(api: Gateway) -> None:
    rule = add(api, tag="PII")
    for role in ("viewer", "editor", "scraper"):
        token = api.token(role=role)
        problem(api.call("GET", RULES, as_=token), 403, "forbidden")
        problem(api.call("GET", f"{COLUMNS}/warehouse", as_=token), 403, "forbidden")
    for role in ("viewer", "editor", "scraper", "auditor"):
        token = api.token(role=role)
        problem(api.call("POST", RULES, as_=token, json={"tag": "PII"}), 403, "forbidden")
        problem(api.call("DELETE", f"{RULES}/{rule['rule_id']}", as_=token), 403, "forbidden")
    assert api.call("GET", RULES, as_=api.token(role="auditor")).status_code == 200
    assert api.call("POST", RULES, as_=api.token(role="steward"), json={"tag": "PII"}).status_code == 201


def test_another_tenant_has_its_own_rules(api: Gateway) -> None:
    rule = add(api, tag="PII")
    other = api.token(tenant="globex")
    assert api.call("GET", RULES, as_=other).json() == {"rules": []}
    problem(api.call("GET", f"{RULES}/{rule['rule_id']}", as_=other), 404, "not_found")
    problem(api.call("DELETE", f"{RULES}/{rule['rule_id']}", as_=other), 404, "not_found")


def test_a_tagged_column_is_protected_by_the_strictest_rule_first(api: Gateway) -> None:
    tag(api, f"{CATALOG[-1]}.email", "PII")
    tag(api, f"{CATALOG[-1]}.email", "GDPR")
    weak = add(api, tag="PII", mask={"kind": "partial", "last": 4})
    strong = add(api, tag="GDPR", mask={"kind": "hash"})
    add(api, tag="OTHER", effect="deny")
    assert protected(api) == {
        "email": [
            (strong["rule_id"], "mask", {"kind": "hash"}),
            (weak["rule_id"], "mask", {"kind": "partial", "first": 0, "last": 4}),
        ]
    }


def test_a_mask_follows_the_data_type(api: Gateway) -> None:
    for name in ("email", "born", "total"):
        tag(api, f"{CATALOG[-1]}.{name}", "PII")
    year = {"kind": "date", "unit": "year"}
    add(api, tag="PII", mask={"kind": "hash"}, masks_by_type={"date": year})
    masks = {name: found[0][2] for name, found in protected(api).items()}
    assert masks == {"email": {"kind": "hash"}, "born": year, "total": {"kind": "null"}}


def test_the_tag_of_a_container_protects_its_columns_where_the_rule_says_so(api: Gateway) -> None:
    tag(api, CATALOG[1], "PII")
    own = add(api, tag="PII")
    assert protected(api) == {}
    api.call("PUT", f"{RULES}/{own['rule_id']}", json={"tag": "PII", "includes_contained": True})
    assert set(protected(api)) == {"email", "born", "total"}
    assert set(protected(api, f"{CATALOG[-1]}.email")) == {"email"}


def test_a_partial_tag_of_a_table_says_nothing_about_its_columns(api: Gateway) -> None:
    tag(api, CATALOG[2], "PII", is_partial=True)
    add(api, tag="PII", includes_contained=True)
    assert protected(api) == {}


def test_a_rule_reaches_no_further_than_its_scope(api: Gateway) -> None:
    for name in ("email", "born"):
        tag(api, f"{CATALOG[-1]}.{name}", "PII")
    add(api, tag="PII", scope="source", value="elsewhere")
    add(api, tag="PII", scope="contained", asset_id="warehouse.hr")
    assert protected(api) == {}
    add(api, tag="PII", scope="asset", asset_id=f"{CATALOG[-1]}.born")
    assert set(protected(api)) == {"born"}
    add(api, tag="PII", scope="contained", asset_id="warehouse")
    assert set(protected(api)) == {"born", "email"}


def test_a_deleted_column_needs_no_protection(api: Gateway) -> None:
    tag(api, f"{CATALOG[-1]}.email", "PII")
    add(api, tag="PII")
    api.execute("UPDATE assets SET is_deleted = true WHERE asset_name = 'email'")
    assert protected(api) == {}


def test_what_the_caller_may_not_see_is_not_listed(api: Gateway) -> None:
    for name in ("email", "born"):
        tag(api, f"{CATALOG[-1]}.{name}", "PII")
    add(api, tag="PII")
    hidden = {"user_id": "sam", "access_type": "READ", "effect": "forbid", "asset_id": f"{CATALOG[-1]}.born"}
    assert api.call("POST", "/lily/v1/access/policies", json=hidden).status_code == 201
    assert set(protected(api, as_=api.token(role="steward", subject="sam"))) == {"email"}
