"""What the operator does by commands, in the audit of the tenant it is done to."""

from __future__ import annotations

from datetime import UTC, datetime
from getpass import getuser
from pathlib import Path

from lily.apps.commands.options import OPERATOR, settings_of


def note(data_dir: Path, tenant: str, action: str, what: tuple[str, str], reason: str = "") -> None:
    """Record that the operator did this; `what` is the kind and the id of what it was done to."""
    from lily.access.audit import AuditEntry, record_at_once  # slow to import

    settings = settings_of(data_dir)
    entry = AuditEntry(
        tenant_id=tenant,
        actor=OPERATOR,
        acting_as=getuser(),
        address="local",
        action=action,
        resource_kind=what[0],
        resource_id=what[1],
        allowed=True,
        reason=reason,
        trace_id="",
        at=datetime.now(UTC),
    )
    url, key = settings.database.url.get_secret_value(), settings.audit.key.get_secret_value()
    record_at_once(url, key, settings.data_dir / "audit", entry)
