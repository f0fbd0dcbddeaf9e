"""Dispatchers as processes that are killed, changes for them on the log, and whether all arrived."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from confluent_kafka import Producer

from kit.operators import environment_of
from kit.receivers import Received, Receiver, Reply, receiver
from lily.apps.connectors import open_connectors
from lily.domain.deliveries import delivery_id
from lily.domain.event_ids import new_batch_id
from lily.domain.subscriptions import Selection, Subscription, Target
from lily.log.producer import producer_config
from lily.log.topics import Topic
from lily.repositories.postgres.connectors import NewConnector
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.subscriptions import PostgresSubscriptions, Vouched
from lily.settings import Settings

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Trial:
    """So many dispatchers, of which one is killed so often, while so many changes are told by every rule."""

    dispatchers: int = 4
    kills: int = 6
    rules: int = 5
    assets: int = 8
    changes: int = 200
    rate: float = 60.0
    failing: float = 0.01  # the part of messages the receiver answers with an error at first
    seed: int = 0
    patience: float = 120.0


@dataclass(frozen=True)
class Outcome:
    """`lost`: what no target got; `foreign`: ids nobody sent; `disorders`: a message before an earlier one
    about the same asset, to the same target. All must be 0; `duplicates` (of the same id) may be more."""

    deliveries: int
    lost: int
    foreign: int
    disorders: int
    duplicates: int
    kills: int
    seconds: float
    latencies: list[float] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return self.lost == self.foreign == self.disorders == 0


@dataclass(frozen=True)
class Told:
    """One change on the log."""

    asset_id: str
    number: int
    event_id: str
    at: float


class Dispatchers:
    """Processes of the dispatcher's own program."""

    def __init__(self, settings: Settings, count: int) -> None:
        self._settings = settings
        own = {"PYTHONPATH": str(ROOT / "src"), "LILY_TARGETS_ALLOW": "127.0.0.0/8"}
        self._environment = {**os.environ, **environment_of(settings), **own}
        self._log = (settings.data_dir / "dispatchers.log").open("ab")
        (settings.data_dir / "run").mkdir(exist_ok=True)
        self.processes = [self._start() for _ in range(count)]

    def kill_one(self, chance: random.Random) -> None:
        """Kill one with no warning, and start another in its place."""
        place = chance.randrange(len(self.processes))
        victim = self.processes[place]
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        self.processes[place] = self._start()

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._log.close()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "lily.apps.dispatcher", "--data-dir", str(self._settings.data_dir)]
        return subprocess.Popen(command, env=self._environment, stdout=self._log, stderr=self._log)


@contextmanager
def dispatchers(settings: Settings, count: int) -> Iterator[Dispatchers]:
    running = Dispatchers(settings, count)
    try:
        yield running
    finally:
        running.stop()


def subscribe(
    settings: Settings, tenant_id: str, wanted: Mapping[str, tuple[str, Selection]]
) -> dict[str, str]:
    """Rules that tell the URLs what they select, by name; answers the id of each rule's subscription."""

    async def run() -> dict[str, str]:
        database = Database(settings.database)
        await database.open()
        try:
            connectors, made = open_connectors(settings.secrets, database), {}
            for name, (url, selection) in wanted.items():
                new = NewConnector("webhook", name, {"url": url}, {"secret": SECRET}, "ada")
                connector = await connectors.add(tenant_id, new)
                target = Target(connector.connector_id)
                rule = Subscription(tenant_id, str(uuid4()), name, "ada", selection, target)
                await PostgresSubscriptions(database).add(rule, Vouched(["owner"], [], None, None))
                made[name] = rule.subscription_id
            return made
        finally:
            await database.close()

    return asyncio.run(run())


class Teller:
    """Puts changes of assets onto the log, as the relay does."""

    def __init__(self, settings: Settings, tenant_id: str) -> None:
        self._producer = Producer(producer_config(settings.kafka))
        self._topic = Topic.METADATA_CHANGES.under(settings.kafka.topic_prefix)
        self._tenant = tenant_id
        self.told: list[Told] = []

    def tell(self, asset_id: str) -> None:
        now = time.time()
        event_id = str(new_batch_id(int(now * 1000)))
        at = datetime.fromtimestamp(now, UTC).isoformat()
        data = {
            "tenant_id": self._tenant,
            "asset_id": asset_id,
            "event_id": event_id,
            "event_time": at,
            "applied_at": at,
            "outcome": "updated",
            "changed": ["description"],
        }
        self._producer.produce(
            self._topic,
            json.dumps(data).encode(),
            f"{self._tenant}/{asset_id}".encode(),
            headers=[("ce_type", b"io.lily.asset.changed.v1"), ("ce_tenantid", self._tenant.encode())],
        )
        self._producer.poll(0)
        self.told.append(Told(asset_id, len(self.told), event_id, now))

    def tell_at(self, rate: float, asset_ids: Sequence[str]) -> None:
        """One after the other, at this rate."""
        began = time.monotonic()
        for number, asset_id in enumerate(asset_ids):
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
            self.tell(asset_id)
        self._producer.flush(30)


def run_trial(settings: Settings, trial: Trial) -> Outcome:
    """One run: tell, kill, wait until all has arrived or patience ends, and count."""
    chance = random.Random(trial.seed)
    flaky, seen = random.Random(trial.seed + 1), set[str]()
    tenant = f"trial-{uuid4().hex[:8]}"

    def answer(request: Received) -> Reply:
        # Once for each message: the second retry comes five minutes later, when patience has ended.
        is_first = request.id not in seen
        seen.add(request.id)
        return Reply(500) if is_first and flaky.random() < trial.failing else Reply()

    with receiver(answer) as there, dispatchers(settings, trial.dispatchers) as running:
        began = time.monotonic()
        wanted = {
            f"rule-{number}": (f"{there.url}/rule-{number}", Selection()) for number in range(trial.rules)
        }
        rules = subscribe(settings, tenant, wanted)
        teller = Teller(settings, tenant)
        assets = [f"asset-{chance.randrange(trial.assets)}" for _ in range(trial.changes)]
        telling = threading.Thread(target=teller.tell_at, args=(trial.rate, assets))
        telling.start()
        for _ in range(trial.kills):
            time.sleep(chance.uniform(0.2, 1.5))
            running.kill_one(chance)
        telling.join()
        expected = expected_ids(tenant, rules, teller.told)
        deadline = time.monotonic() + trial.patience
        while time.monotonic() < deadline and expected.keys() - ids_of(there):
            time.sleep(0.1)
        return judge(expected, there.received, trial.kills, time.monotonic() - began)


def expected_ids(tenant: str, rules: Mapping[str, str], told: Sequence[Told]) -> dict[str, tuple[str, Told]]:
    return {
        str(delivery_id(tenant, subscription, change.event_id)): (f"/{name}", change)
        for name, subscription in rules.items()
        for change in told
    }


def ids_of(there: Receiver) -> set[str]:
    return {request.id for request in there.received}


def judge(
    expected: Mapping[str, tuple[str, Told]], received: Sequence[Received], kills: int, seconds: float
) -> Outcome:
    """What counts is what a receiver that knows ids makes of it: the first arrival of each."""
    first: dict[str, Received] = {}
    for request in received:
        first.setdefault(request.id, request)
    order: dict[tuple[str, str], list[int]] = defaultdict(list)
    for id_, request in first.items():
        if id_ in expected:
            order[(request.path, expected[id_][1].asset_id)].append(expected[id_][1].number)
    latencies = [first[id_].at - change.at for id_, (_, change) in expected.items() if id_ in first]
    return Outcome(
        deliveries=len(expected),
        lost=len(expected.keys() - first.keys()),
        foreign=len(first.keys() - expected.keys())
        + sum(id_ in expected and expected[id_][0] != request.path for id_, request in first.items()),
        disorders=sum(numbers != sorted(numbers) for numbers in order.values()),
        duplicates=len(received) - len(first),
        kills=kills,
        seconds=seconds,
        latencies=latencies,
    )
