"""API keys: shown once, good for what they were made for, revoked at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from identity_kit import ASSETS, KEYS, add_user, bearer, forget_everything, read_status, tokens, validate
from rest_kit import Gateway, gateway, problem

from kit.eventually import eventually
from lily.settings import Settings


@pytest.fixture(scope="module")
def gateways(shared_settings_without_log: Settings) -> Iterator[tuple[Gateway, Gateway]]:
    with gateway(shared_settings_without_log) as here, gateway(shared_settings_without_log) as there:
        yield here, there


@pytest.fixture
def pair(gateways: tuple[Gateway, Gateway]) -> tuple[Gateway, Gateway]:
    forget_everything(gateways[0])
    return gateways


@pytest.fixture
def api(pair: tuple[Gateway, Gateway]) -> Gateway:
    return pair[0]


def make(api: Gateway, as_: str | None = None, **more: Any) -> dict[str, Any]:
    answer = api.call("POST", KEYS, as_=as_, json={"name": "ci", "roles": ["viewer"]} | more)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def test_a_key_is_shown_once_and_stored_as_a_hash(api: Gateway) -> None:
    made = make(api)
    assert read_status(api, made["api_key"]) == 404
    shown = api.call("GET", f"{KEYS}/{made['key_id']}")
    listed = api.call("GET", KEYS)
    secret = made["api_key"].rpartition("~")[2]
    assert secret not in shown.text + listed.text
    with psycopg.connect(api.settings.database.url.get_secret_value()) as connection:
        rows = connection.execute("SELECT to_jsonb(api_keys)::text FROM api_keys").fetchall()
    assert secret not in str(rows)


def test_a_key_speaks_for_itself_with_its_roles_and_scopes(api: Gateway) -> None:
    made = make(api, roles=["owner"], scopes=["lily:write"])
    who = validate(api, made["api_key"]).json()
    assert (who["subject"], who["roles"], who["actions"]) == ("key:ci", ["owner"], ["delete", "write"])
    problem(api.client.get(f"{ASSETS}/x", headers=bearer(made["api_key"])), 403, "forbidden")


def test_a_revoked_key_is_refused_everywhere_when_the_answer_comes(pair: tuple[Gateway, Gateway]) -> None:
    here, there = pair
    for number in range(10):
        made = make(here, name=f"key {number}")
        assert read_status(there, made["api_key"]) == 404
        assert here.call("DELETE", f"{KEYS}/{made['key_id']}").status_code == 204
        assert read_status(there, made["api_key"]) == read_status(here, made["api_key"]) == 401


def test_an_expired_key_is_refused_also_when_it_was_used_before(api: Gateway) -> None:
    made = make(api)
    assert read_status(api, made["api_key"]) == 404
    api.execute("UPDATE api_keys SET expires_at = now() - interval '1 second', revoked_at = NULL")
    api.call("DELETE", f"{KEYS}/{make(api, name='other')['key_id']}")
    assert read_status(api, made["api_key"]) == 401


def test_a_key_that_was_tampered_with_is_refused(api: Gateway) -> None:
    text = make(api)["api_key"]
    kind, tenant, key_id, secret = text.split("~")
    for wrong in (
        text[:-1] + ("A" if text[-1] != "A" else "B"),
        f"{kind}~globex~{key_id}~{secret}",
        f"{kind}~{tenant}~{key_id}~",
        f"{kind}~{tenant}~{key_id}",
        f"{kind}~{tenant}~{'0' * 36}~{secret}",
        f"lilyrefresh~{tenant}~{key_id}~{secret}",
        f"{kind}~' OR 1=1 --~{key_id}~{secret}",
    ):
        assert read_status(api, wrong) == 401


def test_a_key_has_at_most_the_roles_of_its_maker(api: Gateway) -> None:
    viewer = api.token(role="viewer")
    make(api, viewer)
    refused = api.call("POST", KEYS, as_=viewer, json={"name": "up", "roles": ["owner"]})
    problem(refused, 403, "forbidden")
    own = make(api, roles=["owner"], name="maker")["api_key"]
    problem(api.call("POST", KEYS, as_=own, json={"name": "child", "roles": ["viewer"]}), 403, "forbidden")


def test_a_key_of_another_person_or_tenant_is_not_there(api: Gateway) -> None:
    add_user(api, "ada")
    mine = make(api, tokens(api)["access_token"])
    for other in (api.token(role="viewer", subject="bob"), api.token(tenant="globex")):
        for method in ("GET", "DELETE"):
            problem(api.call(method, f"{KEYS}/{mine['key_id']}", as_=other), 404, "not_found")
        assert api.call("GET", KEYS, as_=other).json() == {"api_keys": []}
    assert api.call("GET", KEYS, as_=api.token(subject="root")).json()["api_keys"]


def test_a_name_in_use_is_refused_until_its_key_is_revoked(api: Gateway) -> None:
    first = make(api)
    problem(api.call("POST", KEYS, json={"name": "CI", "roles": ["viewer"]}), 409, "already_exists")
    api.call("DELETE", f"{KEYS}/{first['key_id']}")
    make(api)


def test_a_key_follows_its_owner_under_a_new_name_and_ends_with_them(api: Gateway) -> None:
    add_user(api)
    made = make(api, as_=tokens(api)["access_token"])
    api.execute("UPDATE users SET user_name = 'ada.b' WHERE user_name = 'ada'")
    assert read_status(api, made["api_key"]) == 404
    api.execute("UPDATE users SET active = false WHERE user_name = 'ada.b'")
    eventually(lambda: read_status(api, made["api_key"]) == 401)


def roles_of(api: Gateway, key: dict[str, Any]) -> list[str]:
    roles: list[str] = validate(api, key["api_key"]).json()["roles"]
    return roles


def test_a_role_taken_from_a_person_is_taken_from_their_keys_everywhere(
    pair: tuple[Gateway, Gateway],
) -> None:
    here, there = pair
    add_user(here, roles=["viewer", "steward"])
    own = make(here, tokens(here)["access_token"], roles=["viewer", "steward"])
    assert roles_of(there, own) == ["steward", "viewer"]
    path = f"/lily/v1/users/{here.fetch('SELECT user_id FROM users')[0][0]}/roles"
    assert here.call("PUT", path, as_=here.token(subject="root"), json={"roles": ["viewer"]}).is_success
    assert roles_of(there, own) == roles_of(here, own) == ["viewer"]


def test_a_role_by_a_group_is_lost_by_keys_with_the_group(pair: tuple[Gateway, Gateway]) -> None:
    here, there = pair
    user_id, group_id = str(uuid4()), str(uuid4())
    add_user(here, roles=[], user_id=user_id)
    here.insert("groups", {"tenant_id": "acme", "group_id": group_id, "display_name": "stewards"})
    here.insert("group_members", {"tenant_id": "acme", "group_id": group_id, "user_id": user_id})
    here.insert("group_roles", {"tenant_id": "acme", "group_name": "stewards", "role": "steward"})
    own = make(here, tokens(here)["access_token"], roles=["steward"])
    assert roles_of(there, own) == ["steward"]
    here.execute("DELETE FROM group_members")
    eventually(lambda: roles_of(there, own) == [], 1)


def test_a_key_an_administrator_made_for_a_machine_falls_with_the_administrator(api: Gateway) -> None:
    add_user(api, roles=["owner"])
    machine = make(api, tokens(api)["access_token"], roles=["scraper"])
    assert roles_of(api, machine) == ["scraper"]
    api.execute("UPDATE users SET roles = '{viewer}'")
    eventually(lambda: roles_of(api, machine) == [], 1)


def test_a_key_of_nobody_in_the_directory_and_roles_of_a_token_stay(api: Gateway) -> None:
    machine = make(api, roles=["scraper"])
    add_user(api, "bob", roles=["viewer"])
    vouched = make(api, api.token(role="steward", subject="bob"), roles=["steward"], name="vouched")
    api.execute("UPDATE users SET roles = '{}'")
    assert (roles_of(api, machine), roles_of(api, vouched)) == (["scraper"], ["steward"])


def test_a_new_password_ends_the_sessions_of_before(api: Gateway) -> None:
    add_user(api)
    stolen = tokens(api)["access_token"]
    assert validate(api, stolen).status_code == 200
    api.execute("UPDATE users SET password_hash = 'other' WHERE user_name = 'ada'")
    eventually(lambda: validate(api, stolen).status_code == 401, 1)
