"""Whoever stands by takes over, and is in nobody's way until then."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from kit.eventually import eventually

PROGRAM = """
import sys
from lily.repositories.postgres.leadership import Leadership
asked = Leadership(sys.argv[1])
asked.start()
asked.is_ours(within=1)
print("leads" if asked.is_ours() else "stands by", flush=True)
asked.wait()
print("leads", flush=True)
sys.stdin.read()
"""
OLDEST = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin::text::bigint < %s
"""


@contextmanager
def asking(url: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROGRAM, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_one_that_stands_by_leads_when_the_leader_is_killed(database: str) -> None:
    with asking(database) as leader:
        assert said(leader) == "leads"
        with asking(database) as other:
            assert said(other) == "stands by"
            leader.kill()
            assert said(other) == "leads"


def test_one_that_stands_by_keeps_no_row_from_being_vacuumed(database: str) -> None:
    """A statement that waits has a snapshot, and what died after it stays until it ends."""
    with asking(database) as leader:
        assert said(leader) == "leads"
        with asking(database) as other, psycopg.connect(database, autocommit=True) as connection:
            assert said(other) == "stands by"
            for _ in range(2):  # something dies meanwhile
                [now] = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone() or [0]

            def is_needed_by_nobody() -> bool:
                return connection.execute(OLDEST.encode(), [now]).fetchone() == (0,)

            eventually(is_needed_by_nobody, within=10)
