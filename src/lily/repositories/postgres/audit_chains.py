"""Adds entries to the tenants' audit chains: each exactly once, in one order, under a sealed head."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from lily.domain.audit import AuditEntry, Head, beginning, extend, sign_head
from lily.domain.errors import LilyError
from lily.repositories.postgres.queries import load

_SQL = load("audit.sql")
_COLUMNS = (
    "at",
    "actor",
    "acting_as",
    "address",
    "action",
    "resource_kind",
    "resource_id",
    "allowed",
    "reason",
    "trace_id",
    "event_id",
    "events",
)


class AuditBroken(LilyError):
    """A chain is not what it was when its head was sealed; nothing is added to it."""

    code = "audit_broken"


class AuditChains:
    """The writer of all chains; any number of processes may have one, they take turns by tenant."""

    def __init__(self, key: str) -> None:
        self._key = seal_key(key)

    def taken(self, connection: psycopg.Connection[Any], source: str) -> int:
        """How far the entries of a source are in the chains."""
        row = connection.execute(_SQL["read_source"], {"source": source}).fetchone()
        return int(row[0]) if row else 0

    def add(
        self, connection: psycopg.Connection[Any], entries: Iterable[AuditEntry], source: str, position: int
    ) -> None:
        """Add a source's entries up to `position`, all of them or none."""
        by_tenant: dict[str, list[AuditEntry]] = defaultdict(list)
        for entry in entries:
            by_tenant[entry.tenant_id].append(entry)
        with connection.transaction():
            # In one order whoever writes, so that two writers never wait for each other.
            for tenant_id in sorted(by_tenant):
                self._add_to_chain(connection, tenant_id, by_tenant[tenant_id])
            connection.execute(_SQL["write_source"], {"source": source, "position": position})

    def forget(self, connection: psycopg.Connection[Any], source: str) -> None:
        """A source that is gone for good has no position."""
        connection.execute(_SQL["forget_source"], {"source": source})

    def _add_to_chain(
        self, connection: psycopg.Connection[Any], tenant_id: str, entries: Sequence[AuditEntry]
    ) -> None:
        connection.execute(_SQL["bind_tenant"], {"tenant_id": tenant_id})
        head = self._lock_head(connection, tenant_id)
        heads = []
        for entry in entries:
            head = extend(head, entry)
            heads.append(head)
        columns: dict[str, Any] = {name: [getattr(e, name) for e in entries] for name in _COLUMNS}
        columns |= {"tenant_id": tenant_id, "seq": [h.seq for h in heads], "hash": [h.hash for h in heads]}
        connection.execute(_SQL["add_entries"], columns)
        connection.execute(_SQL["move_head"], self._sealed(tenant_id, head))

    def _lock_head(self, connection: psycopg.Connection[Any], tenant_id: str) -> Head:
        with connection.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(_SQL["lock_head"], {"tenant_id": tenant_id}).fetchone()
            if row is None:
                cursor.execute(_SQL["begin_chain"], self._sealed(tenant_id, beginning(tenant_id)))
                row = cursor.execute(_SQL["lock_head"], {"tenant_id": tenant_id}).fetchone()
        if row is None:
            raise AuditBroken(f"the audit chain of {tenant_id!r} can not be begun; run `lily audit verify`")
        return Head(row[0], row[1])

    def _sealed(self, tenant_id: str, head: Head) -> dict[str, Any]:
        seal = sign_head(self._key, tenant_id, head)
        return {"tenant_id": tenant_id, "seq": head.seq, "hash": head.hash, "seal": seal}


def seal_key(secret: str) -> bytes:
    """The key of seals, from `LILY_AUDIT_KEY`."""
    return sha256(b"lily audit seal\x1f" + secret.encode()).digest()
