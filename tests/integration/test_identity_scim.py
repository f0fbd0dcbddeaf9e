"""SCIM 2.0 as Okta and others use it, checked by the scim2 tester and claim by claim."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import httpx
import pytest
from identity_kit import (
    AUTH,
    KEYS,
    PASSWORD,
    bearer,
    forget_everything,
    log_in,
    read_status,
    tokens,
    validate,
)
from rest_kit import Gateway
from scim2_client.engines.wsgi import WSGISCIMClient
from scim2_models import ScimProvider
from scim2_tester import Status, check_server

USERS, GROUPS = "/scim/v2/Users", "/scim/v2/Groups"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


@pytest.fixture
def api(running: Gateway) -> Gateway:
    forget_everything(running)
    return running


def provision(api: Gateway, name: str = "ada@example.com", **more: Any) -> dict[str, Any]:
    answer = api.call("POST", USERS, json={"userName": name, "password": PASSWORD, "active": True} | more)
    assert answer.status_code == 201, answer.text
    user: dict[str, Any] = answer.json()
    return user


def group(api: Gateway, name: str, *members: dict[str, Any]) -> dict[str, Any]:
    body = {"displayName": name, "members": [{"value": member["id"]} for member in members]}
    answer = api.call("POST", GROUPS, json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def patch(api: Gateway, path: str, *operations: dict[str, Any]) -> httpx.Response:
    return api.call("PATCH", path, json={"schemas": [PATCH], "Operations": list(operations)})


def refusal(answer: httpx.Response, status: int, scim_type: str | None = None) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("application/scim+json")
    document = answer.json()
    assert document["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    assert (document["status"], document.get("scimType")) == (str(status), scim_type)


def over_http(api: Gateway) -> Callable[..., Iterable[bytes]]:
    """The running gateway as a WSGI application, which is what the tester's client talks to."""

    def forward(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        headers = {
            name[5:].replace("_", "-"): value for name, value in environ.items() if name.startswith("HTTP_")
        }
        headers |= {"content-type": environ.get("CONTENT_TYPE") or "application/scim+json"}
        url = environ.get("SCRIPT_NAME", "") + environ["PATH_INFO"]
        query = environ.get("QUERY_STRING", "")
        answer = api.client.request(
            environ["REQUEST_METHOD"],
            f"{url}?{query}" if query else url,
            headers={name: value for name, value in headers.items() if name.lower() != "host"},
            content=environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)),
        )
        sent = [(name, value) for name, value in answer.headers.items() if name != "content-length"]
        start_response(f"{answer.status_code} {answer.reason_phrase}", sent)
        return [answer.content]

    return forward


def test_the_scim_tester_finds_no_error(api: Gateway) -> None:
    key = api.call("POST", KEYS, json={"name": "okta", "roles": ["owner"], "scopes": ["lily:admin"]}).json()
    client = WSGISCIMClient(
        over_http(api),
        base_url=f"{api.client.base_url}/scim/v2",
        headers=bearer(key["api_key"]),
        provider=ScimProvider(),
    )
    results = check_server(client)
    wrong = [f"{each.title}: {each.reason}" for each in results if each.status == Status.ERROR]
    passed = sum(each.status == Status.SUCCESS for each in results)
    assert not wrong, "\n".join(wrong)
    assert passed > 100


def test_a_provisioned_user_logs_in_with_the_roles_of_their_groups(api: Gateway) -> None:
    ada = provision(api)
    assert api.call("PUT", "/lily/v1/group-roles/stewards", json={"roles": ["steward"]}).status_code == 200
    made = group(api, "stewards", ada)
    token = tokens(api, "ada@example.com")["access_token"]
    who = validate(api, token).json()
    assert (who["roles"], who["groups"]) == (["steward"], ["stewards"])
    members = {"op": "remove", "path": f'members[value eq "{ada["id"]}"]'}
    assert patch(api, f"{GROUPS}/{made['id']}", members).status_code == 200
    assert validate(api, token).json()["roles"] == []
    assert read_status(api, token) == 403


def test_deactivating_a_user_ends_their_sessions_and_keys_at_once(api: Gateway) -> None:
    ada = provision(api)
    api.call("PUT", f"/lily/v1/users/{ada['id']}/roles", json={"roles": ["viewer"]})
    token = tokens(api, "ada@example.com")["access_token"]
    made = api.client.post(KEYS, headers=bearer(token), json={"name": "ci", "roles": ["viewer"]}).json()
    assert read_status(api, token) == read_status(api, made["api_key"]) == 404
    # As Okta says it: without a path.
    answer = patch(api, f"{USERS}/{ada['id']}", {"op": "replace", "value": {"active": False}})
    assert answer.json()["active"] is False
    assert read_status(api, token) == read_status(api, made["api_key"]) == 401
    assert log_in(api, "ada@example.com").status_code == 401
    assert patch(api, f"{USERS}/{ada['id']}", {"op": "Replace", "path": "active", "value": True}).is_success
    assert read_status(api, token) == 401
    assert log_in(api, "ada@example.com").status_code == 200


def test_deactivation_by_put_and_deletion_end_sessions_too(api: Gateway) -> None:
    for name, end in (("put", "PUT"), ("delete", "DELETE")):
        user = provision(api, name)
        token = tokens(api, name)["access_token"]
        assert validate(api, token).status_code == 200
        body = {"json": {"userName": name, "active": False}} if end == "PUT" else {}
        assert api.call(end, f"{USERS}/{user['id']}", **body).is_success
        assert validate(api, token).status_code == 401


def test_a_password_is_stored_as_a_hash_and_never_shown(api: Gateway) -> None:
    ada = provision(api)
    shown = api.call("GET", f"{USERS}/{ada['id']}?attributes=password,userName")
    assert PASSWORD not in str(ada) + shown.text
    assert "password" not in shown.json()
    changed = {"op": "replace", "path": "password", "value": "another long password"}
    assert patch(api, f"{USERS}/{ada['id']}", changed).is_success
    assert log_in(api, "ada@example.com").status_code == 401
    assert log_in(api, "ada@example.com", "another long password").status_code == 200


def test_filters_find_by_index_and_by_matching(api: Gateway) -> None:
    for number in range(5):
        provision(api, f"user{number}", externalId=f"x{number}", title="Boss" if number == 3 else "Clerk")

    def found(filter_: str) -> list[str]:
        answer = api.call("GET", USERS, params={"filter": filter_}).json()
        assert answer["totalResults"] == len(answer.get("Resources", []))
        return [each["userName"] for each in answer.get("Resources", [])]

    assert found('userName eq "USER2"') == ["user2"]
    assert found('externalId eq "x4"') == ["user4"]
    assert found('id eq "nonsense"') == []
    assert found('title eq "boss"') == ["user3"]
    assert found('userName sw "user" and not (title eq "Clerk")') == ["user3"]
    assert found('userName eq "x\' OR 1=1 --"') == []
    refusal(api.call("GET", USERS, params={"filter": "userName like x"}), 400, "invalidFilter")
    refusal(api.call("GET", USERS, params={"filter": 'colour eq "red"'}), 400, "invalidFilter")


def test_pages_are_stable_and_complete(api: Gateway) -> None:
    names = [provision(api, f"user{number}", password=None)["userName"] for number in range(7)]
    seen = []
    for start in (1, 4, 7, 10):
        page = api.call("GET", USERS, params={"startIndex": start, "count": 3}).json()
        assert (page["totalResults"], page["startIndex"]) == (7, start)
        seen += [each["userName"] for each in page.get("Resources", [])]
    assert seen == names
    assert api.call("GET", USERS, params={"count": 0}).json()["totalResults"] == 7


def test_a_name_that_is_taken_is_a_conflict(api: Gateway) -> None:
    provision(api)
    other = provision(api, "bob")
    refusal(api.call("POST", USERS, json={"userName": "ADA@example.com"}), 409, "uniqueness")
    refusal(
        api.call("PUT", f"{USERS}/{other['id']}", json={"userName": "ada@example.com"}), 409, "uniqueness"
    )
    group(api, "one")
    refusal(api.call("POST", GROUPS, json={"displayName": "one"}), 409, "uniqueness")


def test_a_change_expects_the_version_it_names(api: Gateway) -> None:
    ada = provision(api)
    place = f"{USERS}/{ada['id']}"
    tag = ada["meta"]["version"]
    assert api.call("GET", place, headers={"if-none-match": tag}).status_code == 304
    body = {"userName": "ada@example.com", "title": "Countess"}
    changed = api.call("PUT", place, json=body, headers={"if-match": tag})
    assert changed.headers["etag"] != tag
    refusal(api.call("PUT", place, json=body, headers={"if-match": tag}), 412)
    refusal(api.call("DELETE", place, headers={"if-match": tag}), 412)


def test_members_are_users_of_the_same_tenant(api: Gateway) -> None:
    stranger = api.call("POST", USERS, as_=api.token(tenant="globex"), json={"userName": "eve"}).json()
    for member in (stranger["id"], "nonsense", "00000000-0000-0000-0000-000000000001"):
        body = {"displayName": "g", "members": [{"value": member}]}
        refusal(api.call("POST", GROUPS, json=body), 400, "invalidValue")


def test_okta_renames_groups_and_changes_members(api: Gateway) -> None:
    ada, bob = provision(api), provision(api, "bob")
    place = f"{GROUPS}/{group(api, 'old', ada)['id']}"
    renamed = {"op": "replace", "value": {"id": place.rpartition("/")[2], "displayName": "new"}}
    assert patch(api, place, renamed).json()["displayName"] == "new"
    added = {"op": "add", "path": "members", "value": [{"value": bob["id"], "display": "bob"}]}
    assert len(patch(api, place, added).json()["members"]) == 2
    only = {"op": "replace", "path": "members", "value": [{"value": bob["id"]}]}
    assert [each["value"] for each in patch(api, place, only).json()["members"]] == [bob["id"]]
    assert api.call("GET", f"{USERS}/{bob['id']}").json()["groups"][0]["display"] == "new"
    assert api.call("DELETE", place).status_code == 204
    refusal(api.call("GET", place), 404)


def test_tenants_do_not_see_each_others_people(api: Gateway) -> None:
    ada = provision(api)
    other = api.token(tenant="globex")
    assert api.call("GET", USERS, as_=other).json()["totalResults"] == 0
    for method, body in (("GET", None), ("DELETE", None), ("PUT", {"userName": "x"})):
        refusal(api.call(method, f"{USERS}/{ada['id']}", as_=other, json=body), 404)
    assert provision(api, "bob", password=None)["userName"] == "bob"


def test_only_an_administrator_or_a_key_for_it_may_provision(api: Gateway) -> None:
    for role in ("steward", "editor", "viewer", "scraper", "auditor", "nobody"):
        for path in (USERS, GROUPS, "/scim/v2/Schemas", "/scim/v2/nothing"):
            refusal(api.call("GET", path, as_=api.token(role=role)), 403)
    refusal(api.client.get(USERS), 401)
    narrow = {"name": "reader", "roles": ["owner"], "scopes": ["lily:read"]}
    key = api.call("POST", KEYS, json=narrow).json()["api_key"]
    refusal(api.call("GET", USERS, as_=key), 403)
    okta = {"name": "okta", "roles": ["owner"], "scopes": ["lily:scim"]}
    key = api.call("POST", KEYS, json=okta).json()["api_key"]
    assert api.call("GET", USERS, as_=key).status_code == 200
    assert read_status(api, key) == 403
    assert api.call("PUT", "/lily/v1/group-roles/g", as_=key, json={"roles": ["owner"]}).status_code == 403
    person = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": "eve"}
    refusal(api.call("POST", USERS, as_=key, json=person | {"password": "correct horse battery"}), 403)
    assert api.call("POST", USERS, as_=key, json=person).status_code == 201


def test_what_is_no_scim_is_refused_in_scims_words(api: Gateway) -> None:
    headers = {"content-type": "application/scim+json"}
    for content in (b"", b"{", b"[]", b"null", b'{"a":' * 5_000, b'{"userName": 7}', b'{"userName": ""}'):
        answer = api.call("POST", USERS, content=content, headers=headers)
        refusal(answer, 400, answer.json().get("scimType"))
    for name in ("key:ci", "a\x00b", "x" * 300):
        refusal(api.call("POST", USERS, json={"userName": name}), 400, "invalidValue")
    refusal(api.call("POST", USERS, json={"userName": "a", "password": "short"}), 400, "invalidValue")
    refusal(api.call("POST", USERS, content=b"x", headers={"content-type": "text/plain"}), 415)
    refusal(api.call("DELETE", "/scim/v2/Schemas"), 405)
    assert api.call("GET", f"{AUTH}/validate").status_code == 200
