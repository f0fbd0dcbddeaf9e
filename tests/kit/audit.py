"""Entries of the audit, and the key the tests seal with."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lily.domain.audit import AuditEntry

KEY = "the key of these tests"


def entry(resource_id: str = "orders", tenant_id: str = "acme", **said: Any) -> AuditEntry:
    known = {"actor": "ada", "acting_as": "editor", "address": "192.0.2.7", "action": "write"}
    known |= {"resource_kind": "asset", "allowed": True, "reason": "role editor", "trace_id": "t"}
    known |= {"at": datetime(2026, 3, 1, tzinfo=UTC)}
    return AuditEntry(tenant_id=tenant_id, resource_id=resource_id, **(known | said))
