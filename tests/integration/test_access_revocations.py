"""A revocation that was answered holds on every gateway, also on one that lost its connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit, urlunsplit

import pytest
from access_kit import emptied
from pydantic import SecretStr
from rest_kit import ASSETS, Gateway, gateway

from kit.proxies import Proxy, proxy
from lily.repositories.postgres.announcements import LEASE_SECONDS
from lily.settings import Settings

POLICIES = "/lily/v1/access/policies"
ALLOWING = {"role": "analyst", "access_type": "READ", "asset_id": "orders"}


@pytest.fixture(scope="module")
def first(shared_settings_without_log: Settings) -> Iterator[Gateway]:
    with gateway(shared_settings_without_log) as running:
        yield running


@pytest.fixture(scope="module")
def between(shared_settings_without_log: Settings) -> Iterator[Proxy]:
    url = urlsplit(shared_settings_without_log.database.url.get_secret_value())
    with proxy((url.hostname or "", url.port or 5432)) as running:
        yield running


@pytest.fixture(scope="module")
def second(
    shared_settings_without_log: Settings, between: Proxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Another gateway, whose way to PostgreSQL can be cut."""
    database = shared_settings_without_log.database
    url = urlsplit(database.url.get_secret_value())
    place = f"{url.netloc.rpartition('@')[0]}@127.0.0.1:{between.port}"
    there = database.model_copy(update={"url": SecretStr(urlunsplit(url._replace(netloc=place)))})
    folder = tmp_path_factory.mktemp("second")
    settings = shared_settings_without_log.model_copy(update={"database": there, "data_dir": folder})
    with gateway(settings) as running:
        yield running


class Reader:
    """Reads an asset over and over, and remembers when it was shown."""

    def __init__(self, api: Gateway) -> None:
        self._api = api
        self._stopped = threading.Event()
        self.statuses: list[tuple[float, int]] = []

    def read(self) -> int:
        started = time.monotonic()
        token = self._token
        answer = self._api.client.get(f"{ASSETS}/orders", headers={"authorization": f"Bearer {token}"})
        self.statuses.append((started, answer.status_code))
        return answer.status_code

    def shown_between(self, start: float, end: float) -> int:
        return sum(status == 200 and start < began < end for began, status in self.statuses)

    def run(self) -> None:
        while not self._stopped.is_set():
            self.read()

    def __enter__(self) -> Reader:
        self._token = self._api.token(role="analyst")
        self._pool = ThreadPoolExecutor(1)
        self._running = self._pool.submit(self.run)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._running.result(30)
        self._pool.shutdown()


def test_what_is_revoked_through_one_gateway_is_denied_by_another_from_the_answer_on(
    first: Gateway, second: Gateway
) -> None:
    emptied(first).stored()
    revoked: list[tuple[float, float]] = []
    taken: list[float] = []
    with Reader(second) as reader:
        for _ in range(15):
            made = first.call("POST", POLICIES, json=ALLOWING).json()["policy_id"]
            assert reader.read() == 200, "allowed as soon as it is answered"
            asked = time.monotonic()
            assert first.call("DELETE", f"{POLICIES}/{made}").status_code == 204
            answered = time.monotonic()
            taken.append(answered - asked)
            for _ in range(5):
                assert reader.read() == 403
            revoked.append((answered, time.monotonic()))
    assert not any(reader.shown_between(*span) for span in revoked)
    assert any(status == 200 for _, status in reader.statuses)
    assert max(taken) < 1.0, taken


def test_a_gateway_that_cannot_hear_allows_nothing_once_a_revocation_is_answered(
    first: Gateway, second: Gateway, between: Proxy
) -> None:
    emptied(first).stored()
    made = first.call("POST", POLICIES, json=ALLOWING).json()["policy_id"]
    with Reader(second) as reader:
        assert reader.read() == 200
        between.cut(b"LISTEN lily_access")
        asked = time.monotonic()
        assert first.call("DELETE", f"{POLICIES}/{made}").status_code == 204
        answered = time.monotonic()
        time.sleep(3 * LEASE_SECONDS)  # that nothing is shown takes time to see
        assert reader.shown_between(answered, time.monotonic()) == 0
        assert answered - asked < LEASE_SECONDS + 0.5
        between.mend()
        made = first.call("POST", POLICIES, json=ALLOWING)
        deadline = time.monotonic() + 10
        while reader.read() != 200:
            assert time.monotonic() < deadline, "it comes back by itself"
    assert {status for _, status in reader.statuses} <= {200, 403, 503}
