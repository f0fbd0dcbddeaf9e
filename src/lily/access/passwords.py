"""Passwords as argon2id hashes: a guess costs the same time whether or not the person exists."""

from __future__ import annotations

import asyncio
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from lily.domain.errors import InvalidInput

MIN_LENGTH = 12
MAX_LENGTH = 256
#: OWASP's choice for one lane of 46 MB: about 50 ms, and four at once stay below 200 MB.
_HASHER = PasswordHasher(time_cost=1, memory_cost=47_104, parallelism=1)
_AT_ONCE = 4


class Passwords:
    """Hashes in threads, a few at a time, so that a flood of logins does not take the machine."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def hash(self, password: str) -> str:
        async with self._turn:
            return await asyncio.to_thread(hash_password, password)

    async def verify(self, known_hash: str | None, password: str) -> bool:
        """Whether this is the password; as slow without a hash as with one."""
        async with self._turn:
            matches = await asyncio.to_thread(_matches, known_hash or _nobodys_hash(), password)
        return matches and known_hash is not None


def hash_password(password: str) -> str:
    """The hash to store; `InvalidInput` when the password is too short or too long."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise InvalidInput(f"a password has {MIN_LENGTH} to {MAX_LENGTH} characters")
    return _HASHER.hash(password)


@cache
def _nobodys_hash() -> str:
    return _HASHER.hash("the password of nobody")


def _matches(known_hash: str, password: str) -> bool:
    try:
        return _HASHER.verify(known_hash, password[: MAX_LENGTH + 1])
    except (VerificationError, InvalidHashError):
        return False
