"""Asks, as Trino does, for the masks of a table with a hundred columns: how long a query waits for that."""

from __future__ import annotations

import time
from uuid import uuid4

import httpx

from bench.kit.platforms import Platform

_COLUMNS = 100
_MASKS = "/v1/data/trino/batchColumnMasks"


def measure_opa(platform: Platform, tenant: str, times: int = 2000) -> list[float]:
    """Seconds each question took, once the masks are in force; every second column is masked."""
    source = f"opa{uuid4().hex[:8]}"
    url = f"http://127.0.0.1:{platform.port}"
    with httpx.Client(base_url=url, timeout=40) as client:
        owner = {"authorization": f"Bearer {platform.token(tenant)}"}
        _make_table(client, owner, source)
        question = _question(source)
        _wait_until_masked(client, owner, question)
        return [_ask(client, owner, question)[1] for _ in range(times)]


def p99(seconds: list[float]) -> float:
    return round(sorted(seconds)[max(0, round(0.99 * len(seconds)) - 1)], 5)


def _make_table(client: httpx.Client, owner: dict[str, str], source: str) -> None:
    columns = [
        {
            "asset_name": f"c{number}",
            "asset_type": "column",
            "data_source": source,
            "external_id": f"bench.public.wide.c{number}",
            "metadata": {"data_type": "text"},
            "tags": ["PII"] if number % 2 else [],
        }
        for number in range(_COLUMNS)
    ]
    client.post("/lily/v1/metadata", json={"assets": columns}, headers=owner).raise_for_status()
    rule = {"tag": "PII", "scope": "source", "value": source, "mask": {"kind": "hash"}}
    client.post("/lily/v1/protection/rules", json=rule, headers=owner).raise_for_status()


def _question(source: str) -> dict[str, object]:
    place = {"catalogName": source, "schemaName": "public", "tableName": "wide", "columnType": "varchar"}
    resources = [{"column": place | {"columnName": f"c{number}"}} for number in range(_COLUMNS)]
    context = {"identity": {"user": "analyst", "groups": ["analysts"]}, "queryId": "bench"}
    return {
        "input": {"context": context, "action": {"operation": "GetColumnMask", "filterResources": resources}}
    }


def _ask(client: httpx.Client, owner: dict[str, str], question: dict[str, object]) -> tuple[int, float]:
    started = time.perf_counter()
    answer = client.post(_MASKS, json=question, headers=owner)
    seconds = time.perf_counter() - started
    masks = answer.raise_for_status().json()["result"]
    return sum(each["viewExpression"]["expression"] != "NULL" for each in masks), seconds


def _wait_until_masked(client: httpx.Client, owner: dict[str, str], question: dict[str, object]) -> None:
    deadline = time.monotonic() + 60
    while _ask(client, owner, question)[0] != _COLUMNS // 2:
        if time.monotonic() > deadline:
            raise SystemExit("the masks were not in force within a minute")
        time.sleep(0.1)
