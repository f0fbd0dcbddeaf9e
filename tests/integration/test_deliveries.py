"""What is to be told arrives: signed, in order, again after failures, and never at a forbidden address."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis.strategies as st
import psycopg
import pytest
from delivery_kit import SECRET, Connectors, Dispatch, dispatching, message, new
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from standardwebhooks.webhooks import Webhook

from kit.certificates import Authority
from kit.receivers import Received, Reply, receiver
from lily.apps.connectors import open_connectors
from lily.domain.audit import AuditEntry
from lily.domain.connectors import Connector
from lily.domain.deliveries import PAUSES, NewDelivery, QueueName, Shipment
from lily.repositories.keyrings import SecretUnreadable
from lily.repositories.postgres.connectors import NewConnector
from lily.repositories.postgres.deliveries import DeliveryQueues
from lily.repositories.postgres.delivery_log import DeliveryLog
from lily.repositories.postgres.notifications import PostgresNotifications, Wanted
from lily.repositories.postgres.pool import Database
from lily.settings import Settings
from lily.targets import attempts, delivering
from lily.targets.switching import SwitchOff
from lily.targets.webhooks import body_of

_SUBSCRIBE = """
INSERT INTO subscriptions (tenant_id, name, owner, roles, groups, selection, connector_id)
VALUES ('acme', %s, %s, '{}', '{}', '{}', %s)
"""
_NOTIFICATION = """
INSERT INTO notifications (tenant_id, notification_id, recipient, group_key, state, count, message, first_at,
                           last_at)
VALUES ('acme', %s, 'ada', %s, 'new', 2, '{}', now() - interval '31 days', now() - make_interval(days => %s))
"""
_CAUSE = """
INSERT INTO notification_causes (tenant_id, subscription_id, cause_key, notification_id, change, event_id,
                                 path, reason, applied_at)
VALUES ('acme', gen_random_uuid(), %s, %s, 'asset.updated', 'e', '{}', '', now() - make_interval(days => %s))
"""


def test_a_tenant_whose_data_is_away_is_in_nobody_elses_way(database: str) -> None:
    async def run() -> None:
        connectors = Connectors()
        with receiver() as there:
            hook = connectors.webhook(f"{there.url}/hook")
            away, other = replace(new(hook), tenant_id="away"), new(hook)
            async with dispatching(database, connectors) as dispatch:
                dispatch.cannot_note.add("away")
                await dispatch.enqueue(away, other)
                assert await dispatch.settled([other]) == ["delivered"]
                row = dispatch.row(away)
                assert (row["status"], row["attempts"], row["is_uncertain"]) == ("pending", 0, False)
                dispatch.cannot_note.clear()
                assert await dispatch.settled([away]) == ["delivered"]
                assert [request.id for request in there.received].count(str(away.delivery_id)) == 1

    asyncio.run(run())


def test_a_secret_that_cannot_be_read_refuses_its_own_messages_alone(database: str) -> None:
    class Locked(Connectors):
        async def secrets_of(self, connector: Connector) -> dict[str, str]:
            if connector.config["url"].endswith("/locked"):
                raise SecretUnreadable("its key is not in the keyring")
            return await super().secrets_of(connector)

    async def run() -> None:
        connectors = Locked()
        with receiver() as there:
            locked, open_ = (new(connectors.webhook(f"{there.url}/{name}")) for name in ("locked", "open"))
            async with dispatching(database, connectors) as dispatch:
                await dispatch.enqueue(locked, open_)
                assert await dispatch.settled([locked, open_]) == ["dead", "delivered"]
                assert "its key is not in the keyring" in dispatch.row(locked)["error"]

    asyncio.run(run())


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
                assert dispatch.noted == [hook.delivery_id]
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


def test_a_target_that_takes_none_of_ten_messages_is_switched_off_and_one_that_takes_one_is_not(
    database: str,
) -> None:
    async def run() -> None:
        connectors = Connectors()
        with receiver(lambda _: Reply(500, b"broken")) as there:
            hook = connectors.webhook(f"{there.url}/")
            async with dispatching(database, connectors) as dispatch:
                for is_taken in (*[False] * 9, True, *[False] * 9):
                    there.answering = lambda _, ok=is_taken: Reply(200 if ok else 500, b"broken")
                    await _to_the_end(dispatch, new(hook))
                    assert not connectors.is_disabled(hook)
                await _to_the_end(dispatch, new(hook))
                async with asyncio.timeout(10):
                    while not connectors.is_disabled(hook):
                        await asyncio.sleep(0.02)
        assert connectors.reasons == ["it took none of 10 messages in a row (HTTP 500: broken)"]

    asyncio.run(run())


async def _to_the_end(dispatch: Dispatch, delivery: NewDelivery) -> None:
    """Sent for the last time: whatever comes of it, it is finished."""
    await dispatch.queues.enqueue([delivery])
    dispatch.execute(f"UPDATE deliveries SET failures = {len(PAUSES)} WHERE status = 'pending'")
    dispatch.make_due()
    await dispatch.settled([delivery])


def test_who_owns_the_subscriptions_of_a_switched_off_target_is_told_and_the_audit_knows(
    settings_without_log: Settings,
) -> None:
    url = settings_without_log.database.url.get_secret_value()
    noted: list[AuditEntry] = []

    async def run() -> list[Any]:
        database = Database(settings_without_log.database)
        await database.open()
        queues = DeliveryQueues(url)
        connectors = open_connectors(settings_without_log.secrets, database)
        new_one = NewConnector("webhook", "ours", {"url": "https://x.example"}, {"secret": SECRET}, "op")
        hook = (await connectors.add("acme", new_one)).connector_id
        with psycopg.connect(url, autocommit=True) as connection:
            for owner, target in (("ada", hook), ("Ada", hook), ("bob", hook), ("eve", str(uuid4()))):
                connection.execute(_SUBSCRIBE, [owner, owner, target])
            connection.execute("INSERT INTO delivery_targets VALUES ('acme', %s, now(), 10)", [hook])
            try:
                async with queues.running():
                    switch = SwitchOff(connectors, queues, noted.append)
                    await asyncio.gather(*(switch("acme", hook, "it is gone") for _ in range(3)))
                found = await connectors.find("acme", hook)
                assert found is not None
                assert found.is_disabled
                told = PostgresNotifications(database)
                return [await told.list("acme", who, Wanted()) for who in ("ada", "bob", "eve")]
            finally:
                await database.close()

    ada, bob, eve = asyncio.run(run())
    assert [len(ada), len(bob), len(eve)] == [1, 1, 0]
    assert (ada[0].state, ada[0].count) == ("new", 1)
    assert "'ours'" in ada[0].message["title"]
    assert "it is gone" in ada[0].message["text"]
    assert '"is_disabled": false' in ada[0].message["text"]
    [entry] = noted
    assert (entry.actor, entry.resource_kind, entry.allowed) == ("dispatcher", "connector", True)


@hypothesis_settings(max_examples=60)
@given(st.text(min_size=1), st.integers(1, 12_000), st.integers(0, 30))
def test_a_webhook_never_has_more_than_20_kb_and_says_when_it_was_cut(
    text: str, times: int, fields: int
) -> None:
    long = (text * times)[:20_000]
    said = message(long, text=long, reason=long, link=long, fields=tuple((long, long) for _ in range(fields)))
    told = new(str(uuid4()), said=said)
    queue = QueueName("acme", told.connector_id, told.queue)
    now = datetime.now(UTC)
    body = body_of(Shipment(queue, told.delivery_id, "rule", {}, said, now, 1, 0, False, now, None))
    assert len(body) < 20_480
    data = json.loads(body)["data"]
    assert data.get("truncated", False) == (data["text"] != long or len(data["fields"]) != fields)


def test_targets_that_hang_leave_room_for_others(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "_SLOW_SECONDS", 0.2)
    monkeypatch.setattr(delivering, "_MOST_SENDING", 16)

    def answer(request: Received) -> Reply:
        if request.path.startswith("/slow"):
            time.sleep(0.6)
            return Reply(500)
        return Reply()

    async def run() -> None:
        connectors = Connectors()
        with receiver(answer) as there:
            slow = [connectors.webhook(f"{there.url}/slow{number}") for number in range(2)]
            stuck = [new(hook, said=message(asset_id=f"a{number}")) for hook in slow for number in range(60)]
            quick = connectors.webhook(f"{there.url}/quick")
            async with dispatching(database, connectors) as dispatch:
                await dispatch.enqueue(*stuck)  # they take all there is, once
                async with asyncio.timeout(20):
                    while len(there.received) < 20:
                        await asyncio.sleep(0.02)
                told = [new(quick, said=message(asset_id=f"a{number}")) for number in range(20)]
                await dispatch.enqueue(*told)
                began = time.monotonic()
                assert await dispatch.settled(told) == ["delivered"] * 20
                slowly = [r for r in there.received if r.path.startswith("/slow") and r.at > time.time() - 1]
                assert len(slowly) <= 2 * 2 * (1 + time.monotonic() - began), "one at a time each"

    asyncio.run(run())


def test_what_notifications_stood_for_is_forgotten_when_nothing_happens_to_them_any_more(
    database: str,
) -> None:
    live, quiet = str(uuid4()), str(uuid4())

    async def run() -> None:
        queues = DeliveryQueues(database)
        async with queues.running():
            await queues.forget()

    with psycopg.connect(database, autocommit=True) as connection:
        for notification, days in ((live, 1), (quiet, 31)):
            connection.execute(_NOTIFICATION, [notification, notification, days])
            for number, age in enumerate((31, days)):
                cause = f"{notification}{number}"
                connection.execute(_CAUSE, [cause, notification, age])
        asyncio.run(run())
        rows = connection.execute("SELECT notification_id::text FROM notification_causes").fetchall()
    assert [row[0] for row in rows] == [live, live]


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
