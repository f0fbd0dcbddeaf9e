"""`lily audit verify` finds what somebody with all rights on the database did to the audit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from kit.audit import KEY, entry
from lily.domain.audit import Head
from lily.repositories.postgres.audit_chains import AuditChains
from lily.repositories.postgres.audit_verification import ChainReport, verify_chains


@pytest.fixture
def audited(database: str) -> str:
    """A database with chains of two tenants, ten entries each."""
    add(database, range(10))
    return database


def add(url: str, numbers: Sequence[int]) -> None:
    entries = [entry(f"{number}", tenant) for number in numbers for tenant in ("acme", "umbrella")]
    with psycopg.connect(url, autocommit=True) as connection:
        AuditChains(KEY).add(connection, entries, "test", 0)


def tamper(url: str, *statements: str) -> None:
    """Whatever the triggers forbid."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table in ("audit", "audit_heads"):
            connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER".encode())
        for statement in statements:
            connection.execute(statement.encode())


def verified(url: str, key: str = KEY, seen: dict[str, Head] | None = None) -> dict[str, ChainReport]:
    return {report.tenant_id: report for report in verify_chains(url, key, "", seen)}


def findings(url: str, seen: dict[str, Head] | None = None) -> list[str]:
    """What is found about the tenant that was tampered with; the other one is always whole."""
    reports = verified(url, seen=seen)
    assert reports["umbrella"].is_whole
    return reports["acme"].findings


def test_chains_nobody_touched_are_whole(audited: str) -> None:
    reports = verified(audited)
    assert {tenant: (report.findings, report.head.seq) for tenant, report in reports.items()} == {
        "acme": ([], 10),
        "umbrella": ([], 10),
    }


@pytest.mark.parametrize(
    "change",
    [
        "actor = 'nobody'",
        "acting_as = 'owner'",
        "address = '198.51.100.1'",
        "action = 'read'",
        "resource_kind = 'policy'",
        "resource_id = 'other'",
        "allowed = NOT allowed",
        "reason = ''",
        "trace_id = 'u'",
        "at = at + interval '1 microsecond'",
        "event_id = gen_random_uuid()",
        "events = events + 1",
        "hash = sha256(hash)",
    ],
)
def test_a_changed_field_is_found_at_its_entry(audited: str, change: str) -> None:
    tamper(audited, f"UPDATE audit SET {change} WHERE tenant_id = 'acme' AND seq = 5")
    assert "entry 5 is not the one that was recorded at this place" in findings(audited)


def test_removed_entries_are_found(audited: str) -> None:
    tamper(audited, "DELETE FROM audit WHERE tenant_id = 'acme' AND seq IN (1, 4, 5)")
    assert findings(audited)[0] == "entry 1 is missing"
    assert "entries 4 to 5 are missing" in findings(audited)


def test_a_removed_entry_is_found_although_the_rest_moved_up(audited: str) -> None:
    tamper(
        audited,
        "DELETE FROM audit WHERE tenant_id = 'acme' AND seq = 4",
        *(f"UPDATE audit SET seq = {n - 1} WHERE tenant_id = 'acme' AND seq = {n}" for n in range(5, 11)),
    )
    assert "entry 4 is not the one that was recorded at this place" in findings(audited)


def test_entries_that_changed_places_are_found(audited: str) -> None:
    swap = "UPDATE audit SET seq = {} WHERE tenant_id = 'acme' AND seq = {}"
    tamper(audited, swap.format(99, 3), swap.format(3, 4), swap.format(4, 99))
    assert "entry 3 is not the one that was recorded at this place" in findings(audited)


def test_a_cut_tail_is_found(audited: str) -> None:
    tamper(audited, "DELETE FROM audit WHERE tenant_id = 'acme' AND seq > 8")
    assert findings(audited) == ["entries 9 to 10 are missing from the end"]


def test_a_cut_tail_with_a_head_made_to_fit_is_found_by_its_seal(audited: str) -> None:
    tamper(
        audited,
        "DELETE FROM audit WHERE tenant_id = 'acme' AND seq > 8",
        """UPDATE audit_heads AS head SET seq = 8, hash = audit.hash FROM audit
            WHERE head.tenant_id = 'acme' AND audit.tenant_id = 'acme' AND audit.seq = 8""",
    )
    assert "the seal of the head is not ours" in findings(audited)[0]


def test_a_chain_computed_anew_by_someone_without_the_key_is_found_by_its_seal(audited: str) -> None:
    tamper(
        audited,
        "DELETE FROM audit WHERE tenant_id = 'acme'",
        "DELETE FROM audit_heads WHERE tenant_id = 'acme'",
    )
    forged = [replace(entry(str(number)), actor="innocent") for number in range(10)]
    with psycopg.connect(audited, autocommit=True) as connection:
        AuditChains("not the key").add(connection, forged, "forged", 0)
    assert "the seal of the head is not ours" in findings(audited)[0]


def test_a_lost_head_is_found(audited: str) -> None:
    tamper(audited, "DELETE FROM audit_heads WHERE tenant_id = 'acme'")
    assert findings(audited) == ["the head of the chain is gone"]


def test_a_database_set_back_is_found_by_what_was_seen_before(audited: str) -> None:
    with psycopg.connect(audited, autocommit=True) as connection:
        seal = connection.execute("SELECT * FROM audit_heads WHERE tenant_id = 'acme'").fetchone()
        assert seal
        add(audited, range(10, 13))
        seen = {tenant: report.head for tenant, report in verified(audited).items()}
        tamper(audited, "DELETE FROM audit WHERE tenant_id = 'acme' AND seq > 10")
        connection.execute(
            "UPDATE audit_heads SET seq = %s, hash = %s, seal = %s WHERE tenant_id = %s", (*seal[1:], seal[0])
        )
    assert findings(audited) == [], "the old head has its old seal: the database alone cannot tell"
    told = "entries 11 to 13 are missing; they were there when the chain was last verified"
    assert findings(audited, seen) == [told]


def test_a_chain_that_vanished_as_a_whole_is_found_by_what_was_seen_before(audited: str) -> None:
    seen = {tenant: report.head for tenant, report in verified(audited).items()}
    tamper(
        audited,
        "DELETE FROM audit WHERE tenant_id = 'acme'",
        "DELETE FROM audit_heads WHERE tenant_id = 'acme'",
    )
    assert "the whole chain is gone" in findings(audited, seen)[0]


def test_entries_added_while_a_chain_is_verified_are_no_finding(audited: str) -> None:
    reports = verify_chains(audited, KEY)
    assert next(reports).is_whole
    add(audited, range(10, 20))
    assert next(reports).is_whole


def test_a_hundred_thousand_entries_are_verified_in_seconds(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        for _ in range(10):
            AuditChains(KEY).add(connection, [entry(str(n)) for n in range(10_000)], "test", 0)
    started = time.perf_counter()
    (report,) = verify_chains(database, KEY)
    seconds = time.perf_counter() - started
    print(f"{100_000 / seconds:,.0f} entries/s")
    assert report.is_whole
    assert report.head.seq == 100_000
    assert seconds < 20


def test_the_remembered_heads_survive_the_command(audited: str, tmp_path: Path) -> None:
    from lily.apps.commands.audit import _read_heads, _write_heads

    heads = {tenant: report.head for tenant, report in verified(audited).items()}
    _write_heads(tmp_path / "heads.json", heads)
    assert _read_heads(tmp_path / "heads.json") == heads
