"""A real Keycloak, the reference identity provider: pinned, fetched once, on a free port with one realm."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import httpx

from kit.eventually import eventually
from lily.standalone.artefacts import PATIENCE, Artefact, verify
from lily.standalone.cache import cache_dir

VERSION = "26.4.0"
DISTRIBUTION = Artefact(
    f"org.keycloak:keycloak-quarkus-dist:{VERSION}",
    "1b6a11a2726ac8a8dc9c91d5fafe989a75ce4f1622d7f7b45c21d5bc16629c0a",
    160_003_335,
)
#: Its first start compiles its configuration: a minute of processor time, more beside other tests.
STARTED_WITHIN = 400.0
PASSWORD = "a password of the realm"
_ADMIN = {"username": "admin", "password": "admin of this test alone"}
_GROUPS = {
    "name": "groups",
    "protocol": "openid-connect",
    "protocolMapper": "oidc-group-membership-mapper",
    "config": {
        "claim.name": "groups",
        "full.path": "false",
        "id.token.claim": "true",
        "access.token.claim": "true",
    },
}
_AUDIENCE = {
    "name": "audience",
    "protocol": "openid-connect",
    "protocolMapper": "oidc-audience-mapper",
    "config": {"included.custom.audience": "lily", "access.token.claim": "true"},
}
REALM: dict[str, Any] = {
    "realm": "acme",
    "enabled": True,
    "groups": [{"name": "data-stewards"}, {"name": "guests"}],
    "clients": [
        {
            "clientId": "lily-console",
            "publicClient": True,
            "redirectUris": ["*"],
            "attributes": {"pkce.code.challenge.method": "S256"},
            "protocolMappers": [_GROUPS],
        },
        {
            "clientId": "tools",
            "publicClient": True,
            "directAccessGrantsEnabled": True,
            "protocolMappers": [_GROUPS, _AUDIENCE],
        },
        {
            "clientId": "elsewhere",
            "publicClient": True,
            "directAccessGrantsEnabled": True,
            "protocolMappers": [_GROUPS],
        },
    ],
    "users": [
        {
            "username": name,
            "enabled": True,
            "email": f"{name}@example.com",
            "emailVerified": True,
            "firstName": name,
            "lastName": name,
            "groups": [group],
            "credentials": [{"type": "password", "value": PASSWORD, "temporary": False}],
        }
        for name, group in (("ada", "data-stewards"), ("guy", "guests"))
    ],
}


class Keycloak:
    """A running server with the realm `acme`."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self._process = process
        self._rotations = 0
        self.client = httpx.Client(base_url=url, timeout=30)
        self.issuer = f"{url}/realms/acme"

    def answers(self) -> bool:
        if self._process.poll() is not None:
            raise EOFError("Keycloak ended by itself")
        return self.client.get("/realms/master").is_success

    def stop(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def create_realm(self) -> None:
        self._administer("POST", "/admin/realms", REALM)

    def rotate_keys(self) -> None:
        """From now on sign with a new key."""
        self._rotations += 1
        key = {
            "name": f"rotation {self._rotations}",
            "providerId": "rsa-generated",
            "providerType": "org.keycloak.keys.KeyProvider",
            "config": {"priority": [str(200 + self._rotations)], "algorithm": ["RS256"]},
        }
        self._administer("POST", "/admin/realms/acme/components", key)

    def access_token(self, user: str = "ada", client: str = "tools") -> str:
        return self._token("acme", client, user, PASSWORD)

    def log_in(self, authorize_url: str, user: str = "ada") -> str:
        """Fill in the login form as a browser would; the address the browser is sent to afterwards."""
        with httpx.Client(timeout=30) as browser:
            page = browser.get(authorize_url)
            action = re.search(r'action="([^"]+)"', page.text)
            assert action, page.text
            form = {"username": user, "password": PASSWORD, "credentialId": ""}
            # Browsers send secure cookies to a loopback address without TLS; httpx does not.
            cookies = "; ".join(each.partition(";")[0] for each in page.headers.get_list("set-cookie"))
            answer = browser.post(unescape(action[1]), data=form, headers={"cookie": cookies})
            assert answer.status_code == 302, answer.text
            return str(answer.headers["location"])

    def _administer(self, method: str, path: str, body: Any) -> None:
        token = self._token("master", "admin-cli", _ADMIN["username"], _ADMIN["password"])
        headers = {"authorization": f"Bearer {token}"}
        self.client.request(method, path, headers=headers, json=body).raise_for_status()

    def _token(self, realm: str, client: str, user: str, password: str) -> str:
        form = {"grant_type": "password", "client_id": client, "username": user, "password": password}
        answer = self.client.post(
            f"/realms/{realm}/protocol/openid-connect/token", data=form | {"scope": "openid"}
        )
        return str(answer.raise_for_status().json()["access_token"])


@contextmanager
def running_keycloak(log: Path) -> Iterator[Keycloak]:
    home, port = _home(), _free_port()
    command = ["sh", str(home / "bin" / "kc.sh"), "start-dev", "--db=dev-mem", "--http-host=127.0.0.1"]
    environment = {
        **os.environ,
        "KC_BOOTSTRAP_ADMIN_USERNAME": _ADMIN["username"],
        "KC_BOOTSTRAP_ADMIN_PASSWORD": _ADMIN["password"],
        "JAVA_OPTS_KC_HEAP": "-Xms128m -Xmx512m",
        "JAVA_OPTS_APPEND": "-XX:TieredStopAtLevel=1",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, f"--http-port={port}"],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    keycloak = Keycloak(process, f"http://127.0.0.1:{port}")
    try:
        try:
            eventually(keycloak.answers, STARTED_WITHIN, ignoring=(httpx.TransportError,))
        except (httpx.TransportError, EOFError) as error:
            raise AssertionError(log.read_text()[-4000:]) from error
        keycloak.create_realm()
        yield keycloak
    finally:
        keycloak.stop()
        keycloak.client.close()


def _home() -> Path:
    """The unpacked distribution in the cache."""
    home = cache_dir("keycloak") / f"keycloak-{VERSION}"
    if not home.exists():
        with tempfile.TemporaryDirectory(dir=cache_dir("keycloak")) as scratch:
            archive = _download(Path(scratch))
            verify(archive, DISTRIBUTION)
            with zipfile.ZipFile(archive) as content:
                content.extractall(scratch)
            (Path(scratch) / home.name).rename(home)
    return home


def _download(scratch: Path) -> Path:
    from jgo.config import GlobalSettings
    from jgo.constants import default_maven_repo
    from jgo.maven import MavenContext, PythonResolver

    context = MavenContext(
        resolver=PythonResolver(),
        repo_cache=scratch,
        local_repos=[default_maven_repo()],
        remote_repos=GlobalSettings.load().repositories or None,
        timeout=120,
    )
    group, artifact, version = DISTRIBUTION.coordinate.split(":")
    component = context.project(group, artifact).at_version(version)

    for pause in PATIENCE:
        try:
            return Path(component.artifact(packaging="zip").resolve())
        except (OSError, RuntimeError):
            time.sleep(pause)
    return Path(component.artifact(packaging="zip").resolve())


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
