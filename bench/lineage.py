"""`./lily bench lineage`: edges, walks and tags on a million assets and two million edges.

The graph is that of bench/kit/graphs.py. It is copied into the tables as it would be after its events, which
takes a minute; the events of a million assets would take half an hour on two cores.
Beside it, on the same graph in the same run: a recursive query in PostgreSQL, rustworkx in memory, and
ladybug, an embedded graph database.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import httpx

from bench.kit import graph_rivals
from bench.kit.graph_ladybug import measure_ladybug
from bench.kit.graphs import LONG, SEED, SMALL, WIDE, GraphSize
from bench.kit.platforms import Platform, new_tenant, platform_of, say
from bench.kit.reports import Figures, report

METADATA = "/lily/v1/metadata"
CLASSIFICATION = f"{METADATA}/governance/classification"
_BATCH = 1000
_SENDERS = 4
#: So many edges let the JVM compile what reads them, and PostgreSQL have at hand what it loaded before.
_WARM_UP = 60_000


class Client:
    """The public API, as one tenant."""

    def __init__(self, platform: Platform, tenant: str) -> None:
        headers = {"authorization": f"Bearer {platform.token(tenant)}", "prefer": "wait=30"}
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{platform.port}", headers=headers, timeout=60)
        self._headers = headers
        self._plain = HTTPConnection("127.0.0.1", platform.port, timeout=60)

    def ask(self, method: str, path: str, **options: object) -> httpx.Response:
        answer = self._http.request(method, path, **options)  # type: ignore[arg-type]
        answer.raise_for_status()
        return answer

    def read(self, path: str) -> bytes:
        """An answer as it comes: to receive 16 MB takes httpx 50 ms, http.client 10."""
        self._plain.request("GET", path, headers=self._headers)
        answer = self._plain.getresponse()
        body = answer.read()
        assert answer.status == HTTPStatus.OK, body[:1000]
        return body

    def tag(self, asset: str, last: str, *, holds: bool) -> float:
        """Seconds from the request until the last descendant answers with its new tags."""
        started = time.perf_counter()
        if holds:
            answer = self.ask("POST", CLASSIFICATION, json={"asset_id": asset, "tags": ["PII"]})
        else:
            answer = self.ask("DELETE", f"{CLASSIFICATION}/{asset}", params={"tag": "PII"})
        after = {"lily-after": answer.headers["lily-event-id"]}
        path = f"{CLASSIFICATION}/{last}"
        while (found := self._http.get(path, headers=after)).status_code == 504:
            pass  # not within the time one request may wait: ask again
        tags = found.raise_for_status().json()["effective_tags"]
        assert ("PII" in tags) is holds, f"{last} has {tags}"
        return time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(prog="lily bench lineage", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--assets", type=int, default=1_000_000, help="size of the graph (1,000,000)")
    parser.add_argument(
        "--writes", type=int, default=120_000, help="edges written through the pipeline (120,000)"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    size, tenant = GraphSize(options.assets), new_tenant()
    with platform_of(options.data_dir) as platform:
        say(f"Loading {options.assets:,} assets and their edges …")
        graph_rivals.load(platform.database_url, tenant, size)
        figures = measure(platform, tenant, size, options.writes)
        figures |= graph_rivals.measure_recursive_query(platform.database_url, tenant, _walked(size))
        graph_rivals.unload(platform.database_url, tenant)
    say("The same by rustworkx and ladybug …")
    figures |= graph_rivals.measure_rustworkx(size, _walked(size))
    figures |= measure_ladybug(size, _walked(size))
    report("lineage", figures | {"assets": options.assets, "seed": SEED}, options.json)
    return 0


def measure(platform: Platform, tenant: str, size: GraphSize, writes: int) -> Figures:
    client = Client(platform, tenant)
    say("Writing edges, walking, tagging …")
    _write_edges(platform, tenant, "warm-up", _WARM_UP)
    figures: Figures = {"edge_writes_per_s": _write_edges(platform, tenant, "new", writes)}
    small = [client.tag(SMALL, f"{SMALL}-10", holds=bool(n % 2 == 0)) for n in range(100)]
    figures["tag_10_p99_s"] = p99(small[::2])
    figures["depth_5_p99_s"] = p99([_walk(client, asset, 5) for asset in _walked(size)])
    figures["downstream_25k_s"] = round(min(_walk(client, LONG, 60) for _ in range(3)), 4)
    figures["tag_100k_s"] = round(client.tag(WIDE, f"{WIDE}-10-0", holds=True), 3)
    figures["untag_100k_s"] = round(client.tag(WIDE, f"{WIDE}-10-0", holds=False), 3)
    return figures


def _walked(size: GraphSize) -> list[str]:
    dice = random.Random(SEED)
    return [f"pipe-{dice.randint(1, size.pipelines)}-{dice.randint(0, 20)}" for _ in range(300)]


def _walk(client: Client, asset: str, depth: int) -> float:
    asked = urlencode({"direction": "downstream", "depth": depth, "page_size": 200_000})
    return timed(lambda: client.read(f"{METADATA}/lineage/{asset}?{asked}"))


def _write_edges(platform: Platform, tenant: str, name: str, writes: int) -> float:
    """Edges per second from the first request until the last is visible."""
    client = Client(platform, tenant)

    def send(first: int) -> str:
        edges = [
            {
                "from_asset_id": f"{name}-{n}",
                "to_asset_id": f"{name}-{n + 1}",
                "relationship_type": "derived-from",
            }
            for n in range(first, first + _BATCH)
        ]
        headers = {"prefer": "respond-async"}
        answer = client.ask("POST", f"{METADATA}/lineage", json={"relationships": edges}, headers=headers)
        return str(answer.headers["lily-event-id"])

    started = time.perf_counter()
    with ThreadPoolExecutor(_SENDERS) as senders:
        event_ids = list(senders.map(send, range(0, writes, _BATCH)))
    path = f"{METADATA}/lineage/{name}-0"

    def wait(event_id: str) -> None:
        client.ask("GET", path, params={"depth": 1}, headers={"lily-after": event_id})

    wait(event_ids[0])  # the edge that is asked for
    with ThreadPoolExecutor(_SENDERS) as waiting:
        list(waiting.map(wait, event_ids))
    return round(writes / (time.perf_counter() - started), 1)


def timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def p99(seconds: list[float]) -> float:
    return round(sorted(seconds)[max(0, round(0.99 * len(seconds)) - 1)], 4)


if __name__ == "__main__":
    sys.exit(main())
