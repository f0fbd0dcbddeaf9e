"""Counts attempts to log in, for all gateways together."""

from __future__ import annotations

from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.queries import load

_QUERIES = load("identity.sql")


class LoginAttempts:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def count(self, tenant_id: str, bucket: str, window_seconds: float) -> tuple[int, float]:
        """Count one attempt: how many there are now, and in how many seconds the window ends."""
        values = {"tenant_id": tenant_id, "bucket": bucket, "seconds": window_seconds}
        [(attempts, wait)] = await self._database.fetch(_QUERIES["count_attempt"], values)
        return attempts, wait

    async def forgive(self, tenant_id: str, bucket: str, *, everything: bool) -> None:
        """The attempt succeeded: take it back, or all that were counted."""
        values = {"tenant_id": tenant_id, "bucket": bucket, "everything": everything}
        await self._database.fetch(_QUERIES["forgive_attempt"], values)
