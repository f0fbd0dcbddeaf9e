"""Remembers the first request of every idempotency key, and lets one request per key run at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID

import psycopg

from lily.domain.errors import KeyInFlight, KeyReused, Unavailable
from lily.repositories.postgres.pool import Database, connection_arguments, unavailable
from lily.repositories.postgres.queries import load
from lily.repositories.postgres.tasks import beside, forget_forever

#: How long a key is remembered. Forgetting one is safe: the id of an event depends on the payload, too.
KEPT_HOURS = 24
_QUERIES = load("idempotency.sql")


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A request made under an idempotency key; `request_hash` tells one payload from another."""

    tenant_id: str
    actor: str
    key: str
    request_hash: bytes

    @property
    def lock(self) -> int:
        digest = sha256("\x1f".join((self.tenant_id, self.actor, self.key)).encode()).digest()
        return int.from_bytes(digest[:8], signed=True)


class IdempotencyKeys:
    """All locks of this process live in one session, which PostgreSQL ends when the process dies."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._session: psycopg.AsyncConnection[Any] | None = None
        self._turn = asyncio.Lock()
        self._held: set[int] = set()

    @asynccontextmanager
    async def claim(self, request: KeyedRequest, event_id: UUID) -> AsyncIterator[bool]:
        """Hold the key while the request is answered; true when an earlier request had the same key."""
        await self._take(request.lock)
        try:
            yield await self._is_repeated(request, event_id)
        finally:
            await asyncio.shield(self._release(request.lock))

    async def is_known(self, request: KeyedRequest) -> bool:
        """Whether the key was used before; `KeyReused` when it was with another payload."""
        parameters = {"tenant_id": request.tenant_id, "actor": request.actor, "key": request.key}
        known = await self._database.fetch(_QUERIES["find_key"], parameters)
        if known and bytes(known[0][0]) != request.request_hash:
            raise KeyReused(
                f"the Idempotency-Key {request.key!r} was already used with another payload; "
                "use a new key for a new request"
            )
        return bool(known)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Forget old keys now and then, while the context is open."""
        try:
            async with beside(forget_forever(self._database, _QUERIES["forget_keys"], {"hours": KEPT_HOURS})):
                yield
        finally:
            if self._session is not None:
                await self._session.close()

    async def _is_repeated(self, request: KeyedRequest, event_id: UUID) -> bool:
        if await self.is_known(request):
            return True
        row = {
            "tenant_id": request.tenant_id,
            "actor": request.actor,
            "key": request.key,
            "request_hash": request.request_hash,
            "event_id": event_id,
        }
        await self._database.fetch(_QUERIES["remember_key"], row)
        return False

    async def _take(self, lock: int) -> None:
        # A session may take its own lock twice, so requests of this process are told apart here.
        if lock in self._held:
            raise _in_flight()
        self._held.add(lock)
        try:
            if not await self._ask("lock_key", lock):
                raise _in_flight()
        except BaseException:
            self._held.discard(lock)
            raise

    async def _release(self, lock: int) -> None:
        # A session that was lost has lost its locks too.
        with suppress(Unavailable):
            await self._ask("unlock_key", lock)
        self._held.discard(lock)

    async def _ask(self, query: str, lock: int) -> bool:
        async with self._turn:
            try:
                cursor = await (await self._open_session()).execute(_QUERIES[query], {"lock": lock})
                row = await cursor.fetchone()
            except psycopg.OperationalError as error:
                self._session = None
                raise unavailable(error) from error
        return bool(row and row[0])

    async def _open_session(self) -> psycopg.AsyncConnection[Any]:
        if self._session is None or self._session.closed:
            self._session = await psycopg.AsyncConnection.connect(
                self._database.url, **connection_arguments()
            )
        return self._session


def _in_flight() -> KeyInFlight:
    return KeyInFlight(
        "the first request with this Idempotency-Key is still being answered; try again shortly"
    )
