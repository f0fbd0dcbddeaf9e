"""Logging in at Lily itself, staying logged in, and being logged out everywhere at once."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from identity_kit import (
    ASSETS,
    AUTH,
    KEYS,
    PASSWORD,
    add_user,
    bearer,
    forget_everything,
    log_in,
    read_status,
    tokens,
    validate,
)
from rest_kit import Gateway, gateway, problem

from kit.eventually import eventually
from lily.access import sessions
from lily.access.passwords import Passwords
from lily.repositories.postgres import announcements
from lily.repositories.postgres.identities import Identities, Session
from lily.repositories.postgres.login_attempts import LoginAttempts
from lily.repositories.postgres.pool import Database
from lily.settings import Settings


@pytest.fixture(scope="module")
def gateways(shared_settings_without_log: Settings) -> Iterator[tuple[Gateway, Gateway]]:
    """Two gateways on one database, as two workers are."""
    with gateway(shared_settings_without_log) as here, gateway(shared_settings_without_log) as there:
        yield here, there


@pytest.fixture
def pair(gateways: tuple[Gateway, Gateway]) -> tuple[Gateway, Gateway]:
    forget_everything(gateways[0])
    add_user(gateways[0])
    return gateways


@pytest.fixture
def api(pair: tuple[Gateway, Gateway]) -> Gateway:
    return pair[0]


def test_a_login_is_answered_with_tokens_that_speak_for_the_user(api: Gateway) -> None:
    granted = tokens(api, "ADA")
    answer = validate(api, granted["access_token"]).json()
    assert answer["active"] is True
    assert (answer["tenant_id"], answer["subject"], answer["roles"]) == ("acme", "ada", ["viewer"])
    assert read_status(api, granted["access_token"]) == 404


def test_a_wrong_password_an_unknown_user_and_an_inactive_one_are_answered_alike(api: Gateway) -> None:
    add_user(api, "bob", active=False)
    add_user(api, "eve", password_hash=None)
    add_user(api, "mallory", tenant_id="globex")
    details = {
        problem(log_in(api, name, password), 401, "unauthenticated")["detail"]
        for name, password in [
            ("ada", "wrong" * 3),
            ("nobody", PASSWORD),
            ("bob", PASSWORD),
            ("eve", PASSWORD),
            ("mallory", PASSWORD),
        ]
    }
    assert len(details) == 1


def test_an_unknown_user_takes_as_long_as_a_wrong_password() -> None:
    known = sessions.Passwords()
    stored = asyncio.run(known.hash(PASSWORD))

    async def seconds(password_hash: str | None) -> float:
        passwords, times = Passwords(), []
        for _ in range(7):
            begun = time.perf_counter()
            assert not await passwords.verify(password_hash, "wrong")
            times.append(time.perf_counter() - begun)
        return statistics.median(times)

    asyncio.run(seconds(None))
    assert asyncio.run(seconds(None)) > 0.5 * asyncio.run(seconds(stored))


def test_a_login_verifies_a_password_also_of_somebody_nobody_knows(
    api: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified: list[bool] = []
    verify = Passwords.verify

    async def counted(self: Passwords, known_hash: str | None, password: str) -> bool:
        verified.append(known_hash is not None)
        return await verify(self, known_hash, password)

    monkeypatch.setattr(Passwords, "verify", counted)
    for name in ("ada", "nobody"):
        assert log_in(api, name, "a wrong password").status_code == 401
    assert verified == [True, False]


def test_a_refresh_is_in_the_audit_with_whose_it_is(api: Gateway) -> None:
    refresh = {"refresh_token": tokens(api)["refresh_token"]}
    assert api.client.post(f"{AUTH}/refresh", json=refresh).status_code == 200
    noted = "SELECT actor FROM audit WHERE tenant_id = 'acme' AND action = 'refresh'"
    eventually(lambda: api.fetch(noted)[-1:] == [("ada",)])


def test_a_browser_session_that_a_provider_vouched_for_ends_the_same_day(api: Gateway) -> None:
    async def opened(user_id: str | None) -> float:
        database = Database(api.settings.database)
        await database.open()
        try:
            identities = Identities(database)
            heard = announcements.Announcements(database)
            secret = api.settings.auth.secret.get_secret_value()
            opening = sessions.Sessions(secret, identities, LoginAttempts(database), heard)
            session_id, _ = await opening.open_for_browser(Session("acme", user_id, "ada", ["owner"]))
            session = await identities.session("acme", session_id)
            assert session is not None
            return session.expires - time.time()
        finally:
            await database.close()

    assert asyncio.run(opened(None)) <= 12 * 3600
    assert asyncio.run(opened(str(uuid4()))) > 6 * 24 * 3600


def test_who_is_refused_is_told_where_it_is_written_who_issues_tokens(api: Gateway) -> None:
    told = api.client.get(f"{ASSETS}/x").headers["www-authenticate"]
    place = told.partition('resource_metadata="')[2].partition('"')[0]
    assert api.client.get(place).json()["bearer_methods_supported"] == ["header"]


def test_guessing_a_password_is_stopped_also_for_the_right_one(
    pair: tuple[Gateway, Gateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "USER_LIMIT", 3)
    for attempt in range(3):
        problem(log_in(pair[attempt % 2], password="wrong" * 3), 401, "unauthenticated")
    refused = log_in(pair[1])
    problem(refused, 429, "too_many_requests")
    assert 0 < int(refused.headers["retry-after"]) <= sessions.WINDOW_SECONDS
    problem(log_in(pair[0], "Ada"), 429, "too_many_requests")


def test_guessing_users_from_one_address_is_stopped(api: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "ADDRESS_LIMIT", 3)
    for number in range(3):
        problem(log_in(api, f"user{number}"), 401, "unauthenticated")
    problem(log_in(api), 429, "too_many_requests")


def test_logins_that_succeed_are_not_limited(api: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "USER_LIMIT", 1)
    monkeypatch.setattr(sessions, "ADDRESS_LIMIT", 1)
    for _ in range(3):
        tokens(api)


def test_a_logout_is_effective_on_every_gateway_when_it_is_answered(pair: tuple[Gateway, Gateway]) -> None:
    here, there = pair
    for _ in range(15):
        token = tokens(here)["access_token"]
        assert read_status(here, token) == read_status(there, token) == 404
        assert here.client.post(f"{AUTH}/logout", headers=bearer(token)).status_code == 204
        assert read_status(there, token) == 401
        assert read_status(here, token) == 401
        here.execute("DELETE FROM login_attempts")


def test_a_gateway_that_cannot_be_told_asks_instead_of_remembering(
    pair: tuple[Gateway, Gateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = pair
    token = tokens(here)["access_token"]
    assert read_status(there, token) == 404
    # Cut every listener off; they cannot come back while this lasts.
    monkeypatch.setattr(announcements, "CHANNEL", 'nothing"')
    listeners = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE %s"
    here.execute(listeners, "%UPDATE access_listeners%")
    assert here.client.post(f"{AUTH}/logout", headers=bearer(token)).status_code == 204
    assert read_status(there, token) == 401


def test_a_token_printed_by_the_operator_can_be_logged_out(pair: tuple[Gateway, Gateway]) -> None:
    here, there = pair
    token = here.token()
    assert read_status(there, token) == 404
    assert here.client.post(f"{AUTH}/logout", headers=bearer(token)).status_code == 204
    assert read_status(there, token) == read_status(here, token) == 401
    assert read_status(here, here.token()) == 404


def test_a_refresh_token_is_good_once(api: Gateway) -> None:
    first = tokens(api)
    second = api.client.post(f"{AUTH}/refresh", json={"refresh_token": first["refresh_token"]}).json()
    third = api.client.post(f"{AUTH}/refresh", json={"refresh_token": second["refresh_token"]}).json()
    assert read_status(api, third["access_token"]) == 404
    assert len({first["refresh_token"], second["refresh_token"], third["refresh_token"]}) == 3


def test_a_refresh_token_that_comes_back_ends_the_whole_session(api: Gateway) -> None:
    first = tokens(api)
    second = api.client.post(f"{AUTH}/refresh", json={"refresh_token": first["refresh_token"]}).json()
    assert read_status(api, second["access_token"]) == 404
    stolen = api.client.post(f"{AUTH}/refresh", json={"refresh_token": first["refresh_token"]})
    problem(stolen, 401, "unauthenticated")
    assert read_status(api, second["access_token"]) == read_status(api, first["access_token"]) == 401
    after = api.client.post(f"{AUTH}/refresh", json={"refresh_token": second["refresh_token"]})
    problem(after, 401, "unauthenticated")


def test_a_refresh_token_nobody_was_given_ends_nothing(api: Gateway) -> None:
    granted = tokens(api)
    made_up = granted["refresh_token"][:-10] + "AAAAAAAAAA"
    for text in (made_up, "", "x", granted["access_token"], made_up.replace("acme", "globex")):
        problem(api.client.post(f"{AUTH}/refresh", json={"refresh_token": text}), 401, "unauthenticated")
    assert read_status(api, granted["access_token"]) == 404


def test_a_refresh_token_is_no_bearer_token(api: Gateway) -> None:
    assert read_status(api, tokens(api)["refresh_token"]) == 401


def test_scopes_narrow_what_a_session_may_do(api: Gateway) -> None:
    add_user(api, "root", roles=["owner"])
    token = tokens(api, "root", scope="lily:read")["access_token"]
    assert read_status(api, token) == 404
    problem(api.client.delete(f"{ASSETS}/x", headers=bearer(token)), 403, "forbidden")
    writer = tokens(api, "root", scope="lily:write")["access_token"]
    problem(api.client.get(f"{ASSETS}/x", headers=bearer(writer)), 403, "forbidden")
    problem(log_in(api, "root", scope="lily:everything"), 422, "invalid_input")
    named = {"name": "wide", "roles": ["owner"]}
    problem(api.client.post(KEYS, headers=bearer(token), json=named), 403, "forbidden")


def test_deactivating_a_user_ends_their_sessions_and_keys_everywhere(pair: tuple[Gateway, Gateway]) -> None:
    here, there = pair
    token = tokens(here)["access_token"]
    made = here.client.post(KEYS, headers=bearer(token), json={"name": "ci", "roles": ["viewer"]}).json()
    assert read_status(there, token) == read_status(there, made["api_key"]) == 404
    here.execute("UPDATE users SET active = false WHERE user_name = 'ada'")
    # Any acknowledged change of this process waits for everybody; the logout of another is one.
    here.client.post(f"{AUTH}/logout", headers=bearer(here.token(subject="somebody")))
    assert read_status(there, token) == read_status(there, made["api_key"]) == 401
    here.execute("UPDATE users SET active = true WHERE user_name = 'ada'")
    assert read_status(there, token) == 401


def test_a_change_of_roles_is_effective_without_a_new_login(api: Gateway) -> None:
    token = tokens(api)["access_token"]
    assert validate(api, token).json()["roles"] == ["viewer"]
    api.execute("UPDATE users SET roles = '{editor}' WHERE user_name = 'ada'")
    api.client.post(f"{AUTH}/logout", headers=bearer(api.token(subject="somebody")))
    assert validate(api, token).json()["roles"] == ["editor"]


def test_a_body_that_is_no_login_is_refused(api: Gateway) -> None:
    for content in (b"", b"{", b"[]", b'{"a":' * 10_000):
        headers = {"content-type": "application/json"}
        answer = api.client.post(f"{AUTH}/login", content=content, headers=headers)
        assert answer.status_code in (400, 422)
    problem(log_in(api, more="x"), 422, "invalid_input")
    problem(log_in(api, tenant_id="a/b"), 422, "invalid_input")


def test_a_session_cookie_may_change_something_only_with_its_csrf_token(api: Gateway) -> None:
    answer = log_in(api, cookie=True)
    assert "access_token" not in answer.json()
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert api.client.get(f"{ASSETS}/x").status_code == 404
    token = api.client.get(f"{AUTH}/validate").json()["csrf_token"]
    assert token == answer.json()["csrf_token"]
    problem(api.client.post(f"{AUTH}/logout"), 403, "forbidden")
    problem(api.client.post(f"{AUTH}/logout", headers={"x-lily-csrf": "x"}), 403, "forbidden")
    assert api.client.post(f"{AUTH}/logout", headers={"x-lily-csrf": token}).status_code == 204
    api.client.cookies.clear()


def test_a_session_cookie_is_no_bearer_token(api: Gateway) -> None:
    log_in(api, cookie=True)
    value = api.client.cookies["lily_session"]
    api.client.cookies.clear()
    assert read_status(api, value) == 401
