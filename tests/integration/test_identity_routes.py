"""No way around authentication: every route, however its path is written, and the operator's commands."""

from __future__ import annotations

import http.client
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.routing import APIRoute
from identity_kit import ASSETS, PASSWORD, bearer, forget_everything, log_in, read_status, tokens, validate
from rest_kit import Gateway, gateway, problem

from kit.operators import environment_of
from lily.apps.cli import main
from lily.apps.gateway import build_app
from lily.serving.rest.system import PUBLIC_PATHS
from lily.settings import ENV_FILE, Settings


@pytest.fixture(scope="module")
def running(shared_settings_without_log: Settings) -> Iterator[Gateway]:
    with gateway(shared_settings_without_log) as api:
        api.stored()
        yield api


@pytest.fixture
def api(running: Gateway) -> Gateway:
    forget_everything(running)
    return running


def raw(api: Gateway, path: str, method: str = "GET", **headers: str) -> int:
    """Send a path exactly as it is written."""
    url = api.client.base_url
    connection = http.client.HTTPConnection(url.host, url.port, timeout=20)
    try:
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in ({"content-length": "0"} | headers).items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


def test_every_route_but_the_public_ones_refuses_a_caller_without_a_credential(api: Gateway) -> None:
    routes = [route for route in build_app(api.settings).routes if isinstance(route, APIRoute)]
    assert len(routes) > 40
    for route in routes:
        path = route.path.replace("{", "").replace("}", "").replace(":path", "")
        for method in route.methods:
            status = raw(api, path, method)
            # A login without a body is refused as malformed, not as unauthenticated.
            assert (status == 401) == (route.path not in PUBLIC_PATHS), (method, path, status)


@pytest.mark.parametrize(
    "path",
    [
        "/lily/v1;x/metadata/orders",
        "/lily/v1/metadata;x/orders",
        "//lily/v1/metadata/orders",
        "/lily//v1/metadata/orders",
        "/lily/v1//metadata/orders",
        "/lily%2fv1%2fmetadata%2forders",
        "/lily/v1/metadata%2forders",
        "/lily/v1/metadata/orders%00",
        "/LILY/v1/metadata/orders",
        "/livez/../lily/v1/metadata/orders",
        "/livez/%2e%2e/lily/v1/metadata/orders",
        "/livez%2f..%2flily/v1/metadata/orders",
        "/livez;/../lily/v1/metadata/orders",
        "/lily/v1/system/health/../../metadata/orders",
        "/lily/v1/auth/login/..%2f..%2fmetadata/orders",
        "/.well-known/../lily/v1/metadata/orders",
        "/openapi.json/lily/v1/metadata/orders",
        "/lily/v1/metadata/orders?path=/livez",
        "/lily/v1/metadata/orders#/livez",
        "/lily/v1/metadata/livez",
        "/scim/v2//Users",
        "/scim/v2/..;/v2/Users",
        "/livez/..;/scim/v2/Users",
        "http://127.0.0.1/lily/v1/metadata/orders",
    ],
)
def test_no_spelling_of_a_path_gets_around_authentication(api: Gateway, path: str) -> None:
    """The asset is there: whoever gets past authentication is answered with 200."""
    assert raw(api, f"{ASSETS}/orders", authorization=f"Bearer {api.token()}") == 200
    assert raw(api, path) in (400, 401, 404)
    assert raw(api, path, **{"x-original-url": "/livez", "x-rewrite-url": "/livez"}) in (400, 401, 404)


def test_a_public_path_stays_public_only_as_it_is_listed(api: Gateway) -> None:
    assert raw(api, "/livez") == 200
    for path in ("/livez/", "/livez;x", "//livez", "/livez%2f", "/Livez", "/livez/x"):
        assert raw(api, path) in (400, 401, 404)


def lily(api: Gateway, folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command prints, for the installation the gateway belongs to."""
    lines = environment_of(api.settings)
    (folder / ENV_FILE).write_text("".join(f"{name}='{value}'\n" for name, value in lines.items()))
    sys.argv = ["lily", *arguments, "--data-dir", str(folder)]
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert not ended.value.code, printed.err
    return printed.out


def test_an_operator_adds_changes_and_disables_users(
    api: Gateway, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [])

    def run(*arguments: str, said: str = "") -> str:
        monkeypatch.setattr(sys, "stdin", io.StringIO(said + "\n"))
        return lily(api, tmp_path, capsys, "user", *arguments, "--tenant", "acme")

    run("add", "grace", "--role", "viewer", said=PASSWORD)
    token = tokens(api, "grace")["access_token"]
    assert validate(api, token).json()["roles"] == ["viewer"]
    run("roles", "grace", "--role", "editor")
    assert validate(api, token).json()["roles"] == ["editor"]
    assert json.loads(run("list").splitlines()[-1])["user_name"] == "grace"
    run("disable", "grace")
    assert read_status(api, token) == 401
    problem(log_in(api, "grace"), 401, "unauthenticated")
    run("enable", "grace")
    run("password", "grace", said="a different password")
    problem(log_in(api, "grace"), 401, "unauthenticated")
    assert tokens(api, "grace", password="a different password")


def test_an_operator_makes_lists_and_revokes_keys(
    api: Gateway, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [])

    def run(*arguments: str) -> str:
        return lily(api, tmp_path, capsys, "key", *arguments, "--tenant", "acme")

    text = run("create", "okta", "--role", "owner", "--scope", "lily:scim").splitlines()[-1]
    assert api.client.get("/scim/v2/Users", headers=bearer(text)).status_code == 200
    listed = json.loads(run("list").splitlines()[-1])
    assert text.rpartition("~")[2] not in str(listed)
    run("revoke", listed["key_id"])
    assert api.client.get("/scim/v2/Users", headers=bearer(text)).status_code == 401
