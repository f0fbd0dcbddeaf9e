"""What is recorded reaches its chain: once, in order, and whatever dies in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kit.audit import KEY, entry
from kit.eventually import eventually
from lily.access.audit import AuditTrail
from lily.domain.audit import Head, beginning, extend
from lily.settings import Settings


def rows(database: str, tenant_id: str = "acme") -> list[tuple[Any, ...]]:
    with psycopg.connect(database) as connection:
        query = "SELECT resource_id, seq, hash FROM audit WHERE tenant_id = %s ORDER BY seq"
        return connection.execute(query, (tenant_id,)).fetchall()


def test_entries_are_chained_in_the_order_they_were_recorded(database: str, tmp_path: Path) -> None:
    trail = AuditTrail(database, KEY, tmp_path)
    entries = [entry(f"asset-{number}") for number in range(300)]
    with trail.running():
        for each in entries:
            trail.record(each)
        eventually(lambda: len(rows(database)) == 300)
        trail.record(entry("last"))
    head, expected = beginning("acme"), []
    for each in [*entries, entry("last")]:
        head = extend(head, each)
        expected.append((each.resource_id, head.seq, head.hash))
    assert rows(database) == expected
    assert list(tmp_path.iterdir()) == []


def test_every_tenant_has_a_chain_of_its_own(database: str, tmp_path: Path) -> None:
    trail = AuditTrail(database, KEY, tmp_path)
    with trail.running():
        for tenant in ("acme", "umbrella", "acme"):
            trail.record(entry(tenant_id=tenant))
    assert [row[1] for row in rows(database, "acme")] == [1, 2]
    umbrella = extend(beginning("umbrella"), entry(tenant_id="umbrella"))
    assert [Head(*row[1:]) for row in rows(database, "umbrella")] == [umbrella]


def test_many_writers_make_one_chain_without_gap_or_fork(database: str, tmp_path: Path) -> None:
    def write(writer: int) -> None:
        trail = AuditTrail(database, KEY, tmp_path / str(writer))
        with trail.running():
            for number in range(200):
                trail.record(entry(f"{writer}-{number}", ("acme", "umbrella")[number % 2]))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    for tenant in ("acme", "umbrella"):
        found = rows(database, tenant)
        assert [row[1] for row in found] == list(range(1, 401))
        assert len({row[0] for row in found}) == 400
        head = beginning(tenant)
        for resource_id, *at in found:
            head = extend(head, entry(resource_id, tenant))
            assert head == Head(*at)


def test_a_process_killed_right_after_recording_loses_nothing(database: str, tmp_path: Path) -> None:
    # PostgreSQL is not even reachable: nothing but the spool can have kept the entries.
    script = f"""
        import pathlib, sys
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from kit.audit import entry
        from lily.access.audit import AuditTrail
        trail = AuditTrail("postgresql://127.0.0.1:9/none", {KEY!r}, pathlib.Path({str(tmp_path)!r}))
        with trail.running():
            for number in range(500):
                trail.record(entry(f"asset-{{number}}"))
            print("recorded", flush=True)
            sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert b"recorded\n" in iter(process.stdout.readline, b"")
        os.kill(process.pid, signal.SIGKILL)
    (spool,) = tmp_path.iterdir()
    with spool.open("ab") as torn:
        torn.write(b'["acme","half an ent')
    with AuditTrail(database, KEY, tmp_path).running():
        eventually(lambda: len(rows(database)) == 500)
    assert [row[0] for row in rows(database)] == [f"asset-{number}" for number in range(500)]
    assert list(tmp_path.iterdir()) == []


def test_what_was_taken_before_the_death_is_not_taken_again(database: str, tmp_path: Path) -> None:
    from lily.access.audit_spools import Spool
    from lily.domain.audit import entry_line
    from lily.repositories.postgres.audit_chains import AuditChains

    spool = Spool.create(tmp_path)
    for name in ("taken", "left"):
        spool.append(entry_line(entry(name)))
    with psycopg.connect(database, autocommit=True) as connection:
        AuditChains(KEY).add(connection, [entry("taken")], spool.name, len(entry_line(entry("taken"))) + 1)
    os.close(spool._descriptor)
    with AuditTrail(database, KEY, tmp_path).running():
        eventually(lambda: len(rows(database)) == 2)
    assert [row[0] for row in rows(database)] == ["taken", "left"]


def test_an_entry_postgresql_could_not_keep_does_not_hold_up_the_others(
    database: str, tmp_path: Path
) -> None:
    trail = AuditTrail(database, KEY, tmp_path)
    with trail.running():
        for name in ("nul\x00", "half\ud800", "long" * 5000, "fine"):
            trail.record(entry(name))
    assert [row[0] for row in rows(database)] == ["nul\ufffd", "half\ufffd", ("long" * 5000)[:2000], "fine"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET actor = 'nobody'",
        "DELETE FROM audit",
        "TRUNCATE audit",
        "DELETE FROM audit_heads",
        "UPDATE audit_heads SET seq = 1",
        "UPDATE audit_heads SET seq = 0",
    ],
)
def test_the_audit_is_append_only_even_for_its_owner(database: str, tmp_path: Path, statement: str) -> None:
    trail = AuditTrail(database, KEY, tmp_path)
    with trail.running():
        trail.record(replace(entry(), actor="mallory"))
    with psycopg.connect(database) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement.encode())


def test_the_gateway_s_role_may_add_and_read_and_nothing_else(settings: Settings) -> None:
    with psycopg.connect(settings.database.gateway_url) as connection:
        query = "SELECT has_table_privilege('audit', %s)"
        allowed = {
            privilege
            for privilege in ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
            if connection.execute(query, (privilege,)).fetchone() == (True,)
        }
    assert allowed == {"SELECT", "INSERT"}


def test_a_trail_with_the_gateway_s_role_writes_every_tenant_s_chain(
    settings: Settings, tmp_path: Path
) -> None:
    trail = AuditTrail(settings.database.gateway_url, KEY, tmp_path)
    with trail.running():
        for tenant in ("acme", "umbrella", "*"):
            trail.record(entry(tenant_id=tenant))
    for tenant in ("acme", "umbrella", "*"):
        assert len(rows(settings.database.url.get_secret_value(), tenant)) == 1
