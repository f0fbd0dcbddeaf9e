"""Writes are decided on the asset as it is and as it would be, each asset of a batch on its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from rest_kit import ASSETS, Gateway, gateway, problem

from lily.settings import Settings

MINE = {"role": "team", "access_type": "WRITE", "scope": "tag", "value": "mine"}


@pytest.fixture
def api(settings: Settings) -> Iterator[Gateway]:
    with gateway(settings) as running:
        yield running


def allow(api: Gateway, **policy: Any) -> None:
    answer = api.call("POST", "/lily/v1/metadata/access-control", json=policy)
    assert answer.status_code == 201, answer.text


def test_nobody_tags_an_asset_into_or_out_of_their_reach(api: Gateway) -> None:
    allow(api, **MINE)
    allow(api, **MINE | {"access_type": "READ", "scope": "all", "value": None})
    api.stored(asset_id="theirs", user_tags=["other"])
    api.stored(asset_id="ours", user_tags=["mine"])
    team, later = api.token(role="team"), {"prefer": "respond-async"}
    asset = {"asset_name": "x", "asset_type": "table"}

    def write(method: str, asset_id: str, body: dict[str, Any], path: str = ASSETS) -> int:
        target = path if method == "POST" else f"{path}/{asset_id}"
        sent = body | ({"asset_id": asset_id} if method == "POST" else {})
        return api.call(method, target, as_=team, json=sent, headers=later).status_code

    for method, body in (
        ("POST", asset | {"tags": ["mine"]}),
        ("PUT", asset | {"tags": ["mine"]}),
        ("PATCH", {"tags": ["mine"]}),
        ("PATCH", {"description": "x"}),
    ):
        assert write(method, "theirs", body) == 403, "as it is, it is not theirs to write"
    for method, body in (
        ("POST", asset | {"tags": ["other"]}),
        ("POST", asset | {"tags": ["other"], "tag_origin": "source"}),
        ("PUT", asset),
        ("PATCH", {"tags": ["other"]}),
        ("PATCH", {"tags": None}),
    ):
        assert write(method, "ours", body) == 403, "as it would be, it is not theirs to write"
    assert write("PATCH", "ours", {"description": "x"}) == 202
    assert write("POST", "new", asset | {"tags": ["mine"]}) == 202
    assert write("POST", "new", asset) == 403
    assert write("PUT", "theirs", {"attributes": {"tags": ["mine"]}}, "/metadata") == 403
    assert api.call("DELETE", f"{ASSETS}/ours", as_=team).status_code == 403
    assert write("POST", "ours", asset | {"is_deleted": True}) == 403, (
        "hiding is deleting, however it is said"
    )
    assert len(api.logged()) == 2


def test_each_asset_of_a_batch_is_decided_on_its_own_and_refused_ones_are_reported(api: Gateway) -> None:
    allow(api, **MINE)
    api.stored(asset_id="theirs")
    team = api.token(role="team")
    asset = {"asset_name": "x", "asset_type": "table", "tags": ["mine"]}
    batch = [
        asset | {"asset_id": "a"},
        asset | {"asset_id": "theirs"},
        asset | {"asset_id": "b", "tags": []},
        asset | {"asset_id": "c"},
    ]
    answer = api.call("POST", ASSETS, as_=team, json={"assets": batch}, headers={"prefer": "respond-async"})
    assert answer.status_code == 202, answer.text
    assert answer.json()["accepted"] == 2
    refused = [(each["index"], each["problem"]["status"]) for each in answer.json()["rejected"]]
    assert refused == [(1, 403), (2, 403)]
    assert len(api.logged()) == 2
    none = api.call("POST", ASSETS, as_=team, json={"assets": batch[1:3]})
    assert len(problem(none, 403, "forbidden")["rejected"]) == 2


def test_who_may_write_but_not_read_is_not_shown_what_they_wrote_to(api: Gateway) -> None:
    allow(api, **MINE)
    api.stored(asset_id="ours", user_tags=["mine"])
    team = api.token(role="team")
    assert api.call("GET", f"{ASSETS}/ours", as_=team).status_code == 403
    answer = api.call(
        "PATCH", f"{ASSETS}/ours", as_=team, json={"description": "x"}, headers={"prefer": "respond-async"}
    )
    assert answer.status_code == 202
    assert set(answer.json()) == {"asset_id", "event_id"}


def test_nobody_lifts_what_hides_an_asset_from_them(api: Gateway) -> None:
    hides = {"role": "editor", "access_type": "READ", "scope": "tag", "value": "pii", "effect": "forbid"}
    allow(api, **hides)
    api.stored(asset_id="hidden", user_tags=["pii"])
    api.stored(asset_id="shown")
    editor, later = api.token(role="editor"), {"prefer": "respond-async"}
    hidden = f"{ASSETS}/hidden"
    classified = f"{ASSETS}/governance/classification/hidden"
    for method, path, body in (
        ("PATCH", hidden, {"tags": []}),
        ("POST", ASSETS, {"asset_id": "hidden", "asset_name": "x", "asset_type": "table", "tags": []}),
        ("DELETE", f"{classified}?tag=pii", None),
        ("PUT", f"{classified}/opt-out", {"tags": ["pii"]}),
        ("POST", f"{classified}/opt-out", {"tags": ["pii"]}),
    ):
        answer = api.call(method, path, as_=editor, headers=later, **({"json": body} if body else {}))
        assert answer.status_code in (403, 404, 405), (method, path, answer.text)
    assert api.logged() == []
    still = api.call("PATCH", hidden, as_=editor, headers=later, json={"description": "x"})
    assert still.status_code == 202
    edge = {"from_asset_id": "shown", "to_asset_id": "hidden", "relationship_type": "derived-from"}
    stopping = api.call(
        "POST", f"{ASSETS}/lineage", as_=editor, headers=later, json=edge | {"blocked_tags": ["*"]}
    )
    problem(stopping, 403, "forbidden")
