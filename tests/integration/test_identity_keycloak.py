"""With a real Keycloak: discovery, tokens, console login, key rotation, and the provider going away."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from identity_kit import ASSETS, AUTH, add_user, forget_everything, read_status, validate
from rest_kit import Gateway, free_port, gateway, problem

from kit.keycloak import STARTED_WITHIN, Keycloak, running_keycloak
from lily.access import keys
from lily.settings import IssuerSettings, Settings

#: The first of them downloads Keycloak and waits for its start.
pytestmark = pytest.mark.timeout(2 * STARTED_WITHIN)


@pytest.fixture(scope="module")
def keycloak(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keycloak]:
    with running_keycloak(tmp_path_factory.mktemp("keycloak") / "keycloak.log") as running:
        yield running


@pytest.fixture(scope="module")
def running(shared_settings_without_log: Settings, keycloak: Keycloak) -> Iterator[Gateway]:
    port = free_port()
    issuer = IssuerSettings(
        name="keycloak",
        issuer=keycloak.issuer,
        audience="lily",
        tenant="acme",
        roles={"data-stewards": ("steward",)},
        client_id="lily-console",
    )
    update = {"issuers": (issuer,), "public_url": f"http://127.0.0.1:{port}"}
    auth = shared_settings_without_log.auth.model_copy(update=update)
    settings = shared_settings_without_log.model_copy(update={"auth": auth})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "COOLDOWN_SECONDS", 0.2)
        with gateway(settings, port) as api:
            yield api


@pytest.fixture
def api(running: Gateway) -> Gateway:
    forget_everything(running)
    running.client.cookies.clear()
    return running


def test_an_access_token_speaks_for_its_bearer(api: Gateway, keycloak: Keycloak) -> None:
    who = validate(api, keycloak.access_token()).json()
    assert (who["tenant_id"], who["subject"]) == ("acme", "ada")
    assert (who["roles"], who["groups"]) == (["steward"], ["data-stewards"])
    assert read_status(api, keycloak.access_token("guy")) == 403


def test_a_token_for_another_audience_is_refused(api: Gateway, keycloak: Keycloak) -> None:
    problem(validate(api, keycloak.access_token(client="elsewhere")), 401, "unauthenticated")


def start_login(api: Gateway, return_to: str = "/assets") -> str:
    started = api.client.get(f"{AUTH}/authorize", params={"provider": "keycloak", "return_to": return_to})
    assert started.status_code == 302
    assert "HttpOnly" in started.headers["set-cookie"]
    return str(started.headers["location"])


def test_logging_in_to_the_console_opens_a_session_in_a_cookie(api: Gateway, keycloak: Keycloak) -> None:
    assert api.client.get(f"{AUTH}/providers").json() == {"local": True, "providers": ["keycloak"]}
    question = parse_qs(urlsplit(start := start_login(api)).query)
    assert question["code_challenge_method"] == ["S256"]
    back = keycloak.log_in(start)
    answer = api.client.get(back)
    assert (answer.status_code, answer.headers["location"]) == (303, "/assets")
    who = api.client.get(f"{AUTH}/validate").json()
    assert (who["subject"], who["roles"], who["credential"]["kind"]) == ("ada", ["steward"], "session")
    assert api.client.get(f"{ASSETS}/x").status_code == 404
    problem(api.client.post(f"{AUTH}/logout"), 403, "forbidden")
    token = {"x-lily-csrf": who["csrf_token"]}
    kept = dict(api.client.cookies)
    assert api.client.post(f"{AUTH}/logout", headers=token).status_code == 204
    api.client.cookies.update(kept)
    problem(api.client.get(f"{AUTH}/validate"), 401, "unauthenticated")


def test_a_code_is_accepted_only_by_the_browser_that_asked_for_it(api: Gateway, keycloak: Keycloak) -> None:
    back = keycloak.log_in(start_login(api))
    cookies = dict(api.client.cookies)
    api.client.cookies.clear()
    problem(api.client.get(back), 401, "unauthenticated")
    start_login(api)  # another login of another browser
    problem(api.client.get(back), 401, "unauthenticated")
    api.client.cookies.clear()
    api.client.cookies.update(cookies)
    assert api.client.get(back).status_code == 303
    api.client.cookies.update(cookies)
    problem(api.client.get(back), 401, "unauthenticated")  # the code was used


@pytest.mark.parametrize(
    "place", ["//evil.example", "https://evil.example", "/\\evil.example", "", "x", "/a\n"]
)
def test_a_login_leads_nowhere_else(api: Gateway, place: str) -> None:
    params = {"provider": "keycloak", "return_to": place}
    problem(api.client.get(f"{AUTH}/authorize", params=params), 400, "malformed_request")


def test_a_person_deactivated_here_cannot_use_the_console(api: Gateway, keycloak: Keycloak) -> None:
    add_user(api, "ada", active=False)
    api.client.get(keycloak.log_in(start_login(api)))
    problem(api.client.get(f"{AUTH}/validate"), 401, "unauthenticated")


def test_keys_rotate_and_known_keys_stay_good_while_the_provider_is_away(
    api: Gateway, keycloak: Keycloak
) -> None:
    old = [keycloak.access_token() for _ in range(2)]
    assert read_status(api, old[0]) == 404
    keycloak.rotate_keys()
    new = keycloak.access_token()
    assert read_status(api, new) == 404
    keycloak.rotate_keys()
    unseen = keycloak.access_token()
    keycloak.stop()
    # Verified for the first time, by a key that is known; then by one that nobody can tell about.
    assert read_status(api, old[1]) == 404
    problem(validate(api, unseen), 503, "unavailable")
    assert read_status(api, new) == 404
