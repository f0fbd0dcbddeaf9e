"""`./lily bench enforcement`: from the request that sets a tag to the masked value an analyst reads.

A database with a hundred tables has 1,000 protected columns. An analyst's session stays open all the time
and reads one column over and over. Each run tags one column more, waits for the mask, untags it, and waits
for the value. Then an asset is tagged that a hundred columns are made from, and a table of a hundred columns
is asked for on Trino's protocol.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
import psycopg

from bench.kit.enforced import FREE, PROTECTED, TABLES, Enforced
from bench.kit.platforms import Platform, new_tenant, platform_of, say
from bench.kit.reports import Figures, report
from bench.kit.waiting import wait_until
from lily.apps.commands.token import local_token
from lily.standalone.installations import Installation

_LIMIT_SECONDS = 60.0
_PAUSE_SECONDS = 0.002
_ASKED = 100
_CALM_SECONDS = 20.0
#: A round is over in two seconds; the middle one counts, so that a hiccup of the machine decides nothing.
_ROUNDS = 7


def main() -> int:
    parser = argparse.ArgumentParser(prog="lily bench enforcement", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=200, help="columns tagged one after the other (200)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    tenant = new_tenant()
    with platform_of(options.data_dir) as platform:
        enforced = Enforced(platform, tenant)
        say(f"Protecting {TABLES * PROTECTED:,} columns of {TABLES} tables …")
        enforced.build()
        try:
            figures = measure_single(enforced, options.runs)
            figures |= measure_many(enforced)
            figures |= measure_opa(platform, tenant, enforced)
        finally:
            enforced.remove()
    report("enforcement", figures | {"protected": TABLES * PROTECTED}, options.json)
    return 0


def measure_single(enforced: Enforced, runs: int) -> Figures:
    """One column at a time: seconds from the request until the analyst's next query shows the mask."""
    session = enforced.connect()
    masks, values = [], []
    for run in range(runs):
        place = (run % TABLES, PROTECTED + run // TABLES % FREE)
        started = time.perf_counter()
        enforced.tag(enforced.place(*place))
        masks.append(_until(enforced, session, [place], 1, started))
        started = time.perf_counter()
        enforced.untag(*place)
        values.append(_until(enforced, session, [place], 0, started))
    session.close()
    return {
        "runs": runs,
        "p50_s": _percentile(masks, 50),
        "p99_s": _percentile(masks, 99),
        "worst_s": round(max(masks), 4),
        "untag_p50_s": _percentile(values, 50),
        "untag_p99_s": _percentile(values, 99),
    }


def measure_many(enforced: Enforced) -> Figures:
    """An asset is tagged that a hundred columns are made from: seconds until all of these are masked."""
    session = enforced.connect()
    columns = [(table, PROTECTED + 1) for table in range(TABLES)]
    enforced.derive("origin", columns)
    started = time.perf_counter()
    enforced.tag("origin")
    seconds = _until(enforced, session, columns, len(columns), started)
    session.close()
    return {"columns_100_s": round(seconds, 4)}


def measure_opa(platform: Platform, tenant: str, enforced: Enforced) -> Figures:
    """Trino's question for the masks of a table of a hundred columns, over HTTP, when all else is done."""
    enforced.tag_all([("wide", column) for column in range(_ASKED)])
    columns = [
        {"catalogName": enforced.database, "schemaName": "public", "tableName": "twide"}
        | {"columnName": f"c{column}", "columnType": "varchar"}
        for column in range(_ASKED)
    ]
    action = {"operation": "GetColumnMask", "filterResources": [{"column": each} for each in columns]}
    question = {"input": {"context": {"identity": {"user": "ana", "groups": []}}, "action": action}}
    token = local_token(Installation.at(platform.data_dir), tenant, "owner", "bench")
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    body = json.dumps(question)
    with closing(http.client.HTTPConnection("127.0.0.1", platform.port, timeout=10)) as connection:

        def ask() -> tuple[float, bytes]:
            started = time.perf_counter()
            connection.request("POST", "/v1/data/trino/batchColumnMasks", body, headers)
            answer = connection.getresponse().read()
            return time.perf_counter() - started, answer

        def is_masked() -> bool:
            return len(json.loads(ask()[1])["result"]) == _ASKED

        wait_until(is_masked, 60, "all columns are masked for Trino")
        time.sleep(_CALM_SECONDS)
        rounds, stolen = [], []
        psutil.cpu_times_percent()  # from now on
        for _ in range(_ROUNDS):
            rounds.append([ask()[0] for _ in range(1000)])
            stolen.append(getattr(psutil.cpu_times_percent(), "steal", 0.0))
    middle, high = ([_percentile(took, each) for took in rounds] for each in (50, 99))
    by_round = {"opa_p99_s_by_round": high, "opa_stolen_percent_by_round": stolen}
    return {"opa_p50_s": median(middle), "opa_p99_s": median(high), **by_round}


def _until(
    enforced: Enforced,
    session: psycopg.Connection[Any],
    columns: list[tuple[int, int]],
    wanted: int,
    started: float,
) -> float:
    while enforced.masked(session, columns) != wanted:
        if time.perf_counter() - started > _LIMIT_SECONDS:
            raise SystemExit(f"{columns[0]} and {len(columns) - 1} more: not within {_LIMIT_SECONDS:.0f} s")
        time.sleep(_PAUSE_SECONDS)
    return time.perf_counter() - started


def _percentile(values: list[float], percent: int) -> float:
    return round(float(np.percentile(values, percent)), 4)


if __name__ == "__main__":
    sys.exit(main())
