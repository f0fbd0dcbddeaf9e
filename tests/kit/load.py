"""A load whose every event is accounted for: what was acknowledged must be there in the end, once."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import httpx

from kit.events import at
from kit.model import Event, Row, state_of
from kit.platform import ASSETS, Platform
from lily.domain.assets import Field
from lily.domain.event_ids import members

_ASSETS = 1000
_BATCH = 25
_PAUSE_SECONDS = 0.04
_RETRY_SECONDS = 0.2
#: Answers after which a client with an idempotency key sends the same again.
_RETRY = frozenset({409, 429, 500, 502, 503, 504})


@dataclass
class Ledger:
    """Events written down after the acknowledgement."""

    events: dict[UUID, Event] = field(default_factory=dict)
    retries: int = 0

    def by_asset(self) -> dict[str, list[Event]]:
        groups: dict[str, list[Event]] = defaultdict(list)
        for event in self.events.values():
            groups[event.asset_id].append(event)
        return groups

    def rows(self) -> dict[str, Row]:
        """The state these events add up to. Each says something new, so each makes a version."""
        return {
            asset: state_of(events) | {"version": len(events)} for asset, events in self.by_asset().items()
        }


class _Worker(threading.Thread):
    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._stopping = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # told to the test by `stop`
            self.error = error

    def work(self) -> None:
        raise NotImplementedError

    def stop(self, within: float = 120) -> None:
        """Finish what was begun; raises what went wrong."""
        self._stopping.set()
        self.join(within)
        assert not self.is_alive(), f"{self.name} does not end"
        if self.error:
            raise self.error


class Load(_Worker):
    """Posts batches without waiting for visibility; repeats each under its key until it is acknowledged."""

    def __init__(self, platform: Platform, tenant: str, seed: int) -> None:
        super().__init__("load")
        self.ledger = Ledger()
        self._platform, self._tenant, self._seed = platform, tenant, seed
        self._chance = random.Random(seed)
        self._sent = 0

    def work(self) -> None:
        headers = {"authorization": f"Bearer {self._platform.token(self._tenant)}", "prefer": "respond-async"}
        with httpx.Client(base_url=self._platform.base_url, headers=headers, timeout=15) as client:
            number = 0
            while not self._stopping.wait(_PAUSE_SECONDS):
                assets = [self._asset() for _ in range(_BATCH)]
                self._acknowledge(self._send(client, assets, f'"{self._seed}-{number}"'), assets)
                number += 1

    def _asset(self) -> dict[str, Any]:
        """An event unlike any other, about one of few assets, of any time in an hour."""
        self._sent += 1
        chosen = self._chance.randrange(_ASSETS)
        asset = {
            "asset_id": f"asset-{chosen}",
            "asset_name": f"name {self._chance.randrange(5)}",
            "asset_type": "column" if chosen % 2 else "table",
            "description": f"event {self._sent}",
            "event_time": (at(0) + timedelta(seconds=self._chance.randrange(3600))).isoformat(),
        }
        if self._chance.random() < 0.3:
            asset["tags"] = sorted({f"tag-{self._chance.randrange(5)}", "pii"})
        if self._chance.random() < 0.3:
            asset["metadata"] = {"rows": self._sent}
        return asset

    def _send(self, client: httpx.Client, assets: list[dict[str, Any]], key: str) -> UUID:
        deadline = time.monotonic() + 240
        while True:
            try:
                answer = client.post(ASSETS, json={"assets": assets}, headers={"idempotency-key": key})
                if answer.status_code not in _RETRY:
                    assert answer.status_code in (200, 202), answer.text
                    assert answer.json()["accepted"] == len(assets), answer.text
                    return UUID(answer.headers["lily-event-id"])
            except httpx.TransportError:
                pass
            assert time.monotonic() < deadline, "no acknowledgement for four minutes"
            self.ledger.retries += 1
            time.sleep(_RETRY_SECONDS)

    def _acknowledge(self, batch_id: UUID, assets: list[dict[str, Any]]) -> None:
        for event_id, asset in zip(members(batch_id), assets, strict=True):
            self.ledger.events[event_id] = _event(event_id, asset)


def _event(event_id: UUID, asset: dict[str, Any]) -> Event:
    said = {
        Field.ASSET_NAME: asset["asset_name"],
        Field.ASSET_TYPE: asset["asset_type"],
        Field.DESCRIPTION: asset["description"],
    }
    if "tags" in asset:
        said[Field.USER_TAGS] = asset["tags"]
    if "metadata" in asset:
        said[Field.METADATA] = asset["metadata"]
    return Event(event_id, datetime.fromisoformat(asset["event_time"]), asset["asset_id"], said)


class Poller(_Worker):
    """Reads a few assets all the time and notes every version that is lower than one seen before."""

    def __init__(self, platform: Platform, tenant: str) -> None:
        super().__init__("poller")
        self.reads = 0
        self.steps_back: list[tuple[str, int, int]] = []
        self._platform, self._tenant = platform, tenant

    def work(self) -> None:
        seen: dict[str, int] = defaultdict(int)
        headers = {"authorization": f"Bearer {self._platform.token(self._tenant)}"}
        with httpx.Client(base_url=self._platform.base_url, headers=headers, timeout=5) as client:
            while not self._stopping.wait(0.02):
                asset_id = f"asset-{self.reads % 6}"
                version = self._version(client, asset_id)
                if version is not None and version < seen[asset_id]:
                    self.steps_back.append((asset_id, seen[asset_id], version))
                seen[asset_id] = max(seen[asset_id], version or 0)

    def _version(self, client: httpx.Client, asset_id: str) -> int | None:
        self.reads += 1
        try:
            answer = client.get(f"{ASSETS}/{asset_id}")
        except httpx.TransportError:
            return None
        return int(answer.json()["version"]) if answer.status_code == 200 else None
