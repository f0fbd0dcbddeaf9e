"""What is to be told arrives: signed, in order, again after failures, and never at a forbidden address."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from pathlib import Path

import pytest
from delivery_kit import SECRET, Connectors, Dispatch, dispatching, message, new
from standardwebhooks.webhooks import Webhook

from kit.certificates import Authority
from kit.receivers import Received, Reply, receiver
from lily.domain.deliveries import PAUSES, NewDelivery
from lily.repositories.postgres.delivery_log import DeliveryLog
from lily.repositories.postgres.pool import Database
from lily.settings import Settings


def test_a_message_is_signed_as_standard_webhooks_ask(database: str) -> None:
    async def run() -> None:
        connectors = Connectors()
        with receiver() as there:
            hook = new(connectors.webhook(f"{there.url}/hook"), said=message("Late <b>", text="x"))
            async with dispatching(database, connectors) as dispatch:
                assert await dispatch.enqueue(hook) == 1
                assert await dispatch.settled([hook]) == ["delivered"]
                [request] = there.received
                told = Webhook(SECRET).verify(request.body, dict(request.headers))
                assert request.id == str(hook.delivery_id)
                assert told["type"] == "incident.opened"
                assert told["data"]["title"] == "Late <b>"
                assert told["data"]["reason"].startswith("the subscription")
                row = dispatch.row(hook)
                assert json.loads(row["rendered"]) == told
                assert row["finished_at"] > row["told_at"]
                assert row["log"][0]["status"] == 200

    asyncio.run(run())


def test_both_secrets_sign_while_one_is_replaced(database: str) -> None:
    older, newer = SECRET, "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"

    async def run() -> None:
        connectors = Connectors()
        with receiver() as there:
            hook = new(connectors.webhook(f"{there.url}/", secret=newer, previous_secret=older))
            async with dispatching(database, connectors) as dispatch:
                await dispatch.enqueue(hook)
                await dispatch.settled([hook])
        [request] = there.received
        for secret in (older, newer):
            Webhook(secret).verify(request.body, dict(request.headers))
        assert len(request.headers["webhook-signature"].split()) == 2

    asyncio.run(run())


def test_a_cause_is_told_once_however_often_it_is_asked_for(database: str) -> None:
    async def run() -> None:
        connectors = Connectors()
        with receiver() as there:
            hook = connectors.webhook(f"{there.url}/")
            same = new(hook, "event-1")
            async with dispatching(database, connectors) as one, dispatching(database, connectors) as two:
                counts = await asyncio.gather(*(each.enqueue(same) for each in (one, two) * 5))
                assert sum(counts) == 1
                await one.settled([same])
                await asyncio.sleep(0.2)
            assert len(there.received) == 1

    asyncio.run(run())


def test_messages_about_one_asset_keep_their_order_also_through_failures(database: str) -> None:
    failing = {"3"}

    def answer(request: Received) -> Reply:
        title = json.loads(request.body)["data"]["title"]
        if title in failing:
            failing.discard(title)
            return Reply(500)
        return Reply()

    async def run() -> None:
        connectors = Connectors()
        with receiver(answer) as there:
            hook = connectors.webhook(f"{there.url}/")
            told = [new(hook, said=message(str(number))) for number in range(8)]
            other = new(hook, said=message("other", asset_id="customers"))
            async with dispatching(database, connectors) as dispatch:
                await dispatch.enqueue(*told, other)
                await dispatch.settled([other])
                await dispatch.attempted(told[3], 1)
                assert dispatch.row(told[4])["status"] == "pending"
                dispatch.make_due()
                await dispatch.settled(told)
        titles = [json.loads(request.body)["data"]["title"] for request in there.received]
        assert [title for title in titles if title != "other"] == list("012334567")
        ids = [request.id for request in there.received if request.id == str(told[3].delivery_id)]
        assert len(ids) == 2

    asyncio.run(run())


def test_failures_follow_the_schedule_and_end_as_a_dead_letter_that_can_be_replayed(
    settings_without_log: Settings,
) -> None:
    database = settings_without_log.database.url.get_secret_value()

    async def run() -> None:
        connectors = Connectors()
        with receiver(lambda _: Reply(500, b"broken")) as there:
            hook = new(connectors.webhook(f"{there.url}/"))
            async with dispatching(database, connectors) as dispatch:
                await dispatch.enqueue(hook)
                for failures, pause in enumerate(PAUSES, start=1):
                    await dispatch.attempted(hook, failures)
                    waits = await _waits(dispatch)
                    assert 0.75 * pause <= waits <= 1.25 * pause
                    dispatch.make_due()
                assert await dispatch.settled([hook]) == ["dead"]
                row = dispatch.row(hook)
                assert (row["failures"], row["error"]) == (10, "HTTP 500: broken")
                there.answering = lambda _: Reply()
                assert await _replay(settings_without_log, hook) == 1
                assert await dispatch.settled([hook]) == ["delivered"]
        assert {request.id for request in there.received} == {str(hook.delivery_id)}

    asyncio.run(run())


async def _replay(settings: Settings, delivery: NewDelivery) -> int:
    gateway = Database(settings.database)
    await gateway.open()
    try:
        return await DeliveryLog(gateway).replay("acme", [str(delivery.delivery_id)])
    finally:
        await gateway.close()


async def _waits(dispatch: Dispatch) -> float:
    """The seconds until the next attempt, as soon as there is one to wait for."""
    for _ in range(200):
        due, _held = await dispatch.queues.next_due()
        if due is not None and due > 1:
            return float(due)
        await asyncio.sleep(0.01)
    raise AssertionError("nothing waits")


def test_retry_after_holds_the_whole_target_and_is_no_failure(database: str) -> None:
    began = time.time()

    def answer(_request: Received) -> Reply:
        return Reply(429, b"", {"retry-after": "1"}) if time.time() < began + 0.8 else Reply()

    async def run() -> None:
        connectors = Connectors()
        with receiver(answer) as there:
            hook = connectors.webhook(f"{there.url}/")
            told = [new(hook, said=message(asset_id=f"a{number}")) for number in range(3)]
            async with dispatching(database, connectors) as dispatch:
                await dispatch.enqueue(told[0])
                while not there.received:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.1)
                await dispatch.enqueue(*told[1:])
                assert await dispatch.settled(told) == ["delivered"] * 3
                assert [row["failures"] for row in dispatch.rows()] == [0, 0, 0]
        first, *rest = [request.at for request in there.received]
        assert min(rest) - first >= 0.9

    asyncio.run(run())


def test_410_switches_the_connector_off_and_what_follows_is_dead_until_replayed(database: str) -> None:
    async def run() -> None:
        connectors = Connectors()
        with receiver(lambda _: Reply(410)) as there:
            hook = connectors.webhook(f"{there.url}/")
            first, second = new(hook), new(hook)
            async with dispatching(database, connectors) as dispatch:
                await dispatch.enqueue(first)
                assert await dispatch.settled([first]) == ["dead"]
                assert connectors.is_disabled(hook)
                dispatch.targets.forget()
                await dispatch.enqueue(second)
                assert await dispatch.settled([second]) == ["dead"]
                assert "is disabled" in dispatch.row(second)["error"]
        assert len(there.received) == 1

    asyncio.run(run())


def test_a_redirect_is_a_failure_and_not_followed(database: str) -> None:
    async def run() -> None:
        connectors = Connectors()
        with receiver() as elsewhere, receiver() as there:
            there.answering = lambda _: Reply(302, b"", {"location": elsewhere.url})
            hook = new(connectors.webhook(f"{there.url}/"))
            async with dispatching(database, connectors) as dispatch:
                await dispatch.enqueue(hook)
                row = await dispatch.attempted(hook, 1)
                assert (row["status"], row["log"][0]["status"]) == ("pending", 302)
            assert elsewhere.received == []

    asyncio.run(run())


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://[::1]:{port}/"]
)
def test_an_address_in_the_house_is_refused_unless_the_operator_allows_it(database: str, url: str) -> None:
    async def run() -> None:
        connectors = Connectors()
        with receiver() as there:
            hook = new(connectors.webhook(url.format(port=there.port)))
            async with dispatching(database, connectors, allow="10.0.0.0/8") as dispatch:
                await dispatch.enqueue(hook)
                row = await dispatch.attempted(hook, 1)
                assert "must be told over https" in row["error"]
            assert there.received == []

    asyncio.run(run())


def test_one_that_hangs_does_not_delay_the_others(database: str) -> None:
    released = threading.Event()

    def answer(request: Received) -> Reply:
        if request.path == "/slow":
            released.wait(30)
        return Reply()

    async def run() -> None:
        connectors = Connectors()
        with receiver(answer) as there:
            slow = connectors.webhook(f"{there.url}/slow")
            quick = [connectors.webhook(f"{there.url}/{number}") for number in range(20)]
            stuck = [new(slow, said=message(asset_id=f"a{number}")) for number in range(50)]
            told = [new(hook) for hook in quick]
            async with dispatching(database, connectors) as dispatch:
                await dispatch.enqueue(*stuck)
                await asyncio.sleep(0.3)
                await dispatch.enqueue(*told)
                assert await dispatch.settled(told, within=12) == ["delivered"] * 20
                assert len(there.by_path()["/slow"]) <= 8
                released.set()

    asyncio.run(run())


def test_a_certificate_is_shown_to_a_receiver_that_asks_for_one(database: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "house")
    signed = authority.sign("receiver")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(signed.certificate, signed.key)
    server.load_verify_locations(authority.file)
    server.verify_mode = ssl.CERT_REQUIRED
    shown, trusted = Path(authority.sign("lily").both).read_text(), Path(authority.file).read_text()

    async def run() -> None:
        connectors = Connectors()
        with receiver(tls=server) as there:
            config = {"url": f"{there.url}/", "ca": trusted}
            without = new(connectors.add("webhook", config, secret=SECRET))
            hook = new(connectors.add("webhook", config, secret=SECRET, client_key=shown))
            async with dispatching(database, connectors) as dispatch:
                await dispatch.enqueue(without, hook)
                assert await dispatch.settled([hook]) == ["delivered"]
                assert dispatch.row(without)["status"] == "pending"
            assert len(there.received) == 1

    asyncio.run(run())
