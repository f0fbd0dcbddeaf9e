"""Counts attempts to log in, for all gateways together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.queries import load

_QUERIES = load("identity.sql")


class LoginAttempts:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def count(
        self, tenant_id: str, buckets: Sequence[str], window_seconds: float
    ) -> Mapping[str, tuple[int, float]]:
        """Count one attempt in each bucket: how many now, and in how many seconds the window ends."""
        values = {"tenant_id": tenant_id, "buckets": sorted(buckets), "seconds": window_seconds}
        rows = await self._database.fetch(_QUERIES["count_attempt"], values)
        return {bucket: (attempts, wait) for bucket, attempts, wait in rows}

    async def forgive(self, tenant_id: str, buckets: Sequence[str], cleared: str) -> None:
        """The attempt succeeded: take it back, and all of those counted in `cleared`."""
        values = {"tenant_id": tenant_id, "buckets": list(buckets), "cleared": cleared}
        await self._database.fetch(_QUERIES["forgive_attempt"], values)
