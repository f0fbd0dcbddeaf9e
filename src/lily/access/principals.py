"""The one who asks, as every interface knows them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """A verified caller. Everything they read or write belongs to `tenant_id`."""

    tenant_id: str
    subject: str
    role: str
