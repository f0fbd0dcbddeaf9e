"""Checks the audit's chains: whether any entry was changed, removed, moved, added by hand, or cut off."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from lily.domain.audit import Head, beginning, sign_head
from lily.repositories.postgres.audit_chains import seal_key
from lily.repositories.postgres.queries import load

_SQL = load("audit.sql")
_ROWS_AT_ONCE = 5000
_MOST_FINDINGS = 20


@dataclass
class ChainReport:
    """What is wrong with one tenant's chain; nothing, if it is whole up to `head`."""

    tenant_id: str
    head: Head
    findings: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return not self.findings

    def find(self, finding: str) -> None:
        if len(self.findings) < _MOST_FINDINGS:
            self.findings.append(finding)
        elif len(self.findings) == _MOST_FINDINGS:
            self.findings.append("… and more")


def verify_chains(
    url: str, key: str, tenant_id: str = "", seen: Mapping[str, Head] | None = None
) -> Iterator[ChainReport]:
    """One report per chain, of one tenant or of all; `seen` are heads of an earlier verification.

    Entries are streamed: the memory needed does not grow with the chain.
    """
    with psycopg.connect(url, options="-c timezone=UTC -c jit=off", row_factory=tuple_row) as connection:
        # One snapshot, so that heads and entries are of the same moment while entries are added.
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        heads = connection.execute(_SQL["read_heads"], {"tenant_id": tenant_id}).fetchall()
        known = {row[0] for row in heads}
        for tenant, seq, digest, seal in heads:
            report = _walk(connection, tenant, (seen or {}).get(tenant))
            _check_head(report, key, seq, digest, seal)
            yield report
        for tenant, head in (seen or {}).items():
            if tenant not in known and tenant_id in ("", tenant):
                lost = f"the whole chain is gone; it had {head.seq} entries when it was last verified"
                yield ChainReport(tenant, beginning(tenant), [lost])


def _walk(connection: psycopg.Connection[Any], tenant_id: str, seen: Head | None) -> ChainReport:
    """Compute every hash again; after a broken entry the walk goes on from what is stored."""
    report = ChainReport(tenant_id, beginning(tenant_id))
    seq, previous = report.head
    with connection.cursor("audit_chain") as cursor:
        cursor.itersize = _ROWS_AT_ONCE
        cursor.execute(_SQL["read_chain"], {"tenant_id": tenant_id})
        for row in cursor:
            if row[0] != seq + 1:
                report.find(_gap(seq + 1, row[0] - 1))
            seq = row[0]
            line = json.dumps(row[2:], ensure_ascii=False, separators=(",", ":")).encode()
            if sha256(previous + b"%d\x1f" % seq + line).digest() != row[1]:
                report.find(f"entry {seq} is not the one that was recorded at this place")
            previous = row[1]
            if seen and seq == seen.seq and previous != seen.hash:
                report.find(f"entry {seq} is not the one that was verified before")
    report.head = Head(seq, previous)
    if seen and seq < seen.seq:
        report.find(f"{_gap(seq + 1, seen.seq)}; they were there when the chain was last verified")
    return report


def _check_head(
    report: ChainReport, key: str, seq: int | None, digest: bytes | None, seal: bytes | None
) -> None:
    if seq is None or digest is None or seal is None:
        report.find("the head of the chain is gone")
        return
    sealed = Head(seq, digest)
    if not hmac.compare_digest(seal, sign_head(seal_key(key), report.tenant_id, sealed)):
        report.find("the seal of the head is not ours, or LILY_AUDIT_KEY is not the key it was made with")
    elif sealed.seq > report.head.seq:
        report.find(f"{_gap(report.head.seq + 1, sealed.seq)} from the end")
    elif sealed != report.head:
        report.find(f"the entries after {sealed.seq} or the head were not written by Lily")


def _gap(first: int, last: int) -> str:
    return f"entry {first} is missing" if first == last else f"entries {first} to {last} are missing"
