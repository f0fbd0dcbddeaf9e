"""Secrets of connectors and targets, encrypted before they reach PostgreSQL.

Every secret has a data key of its own, wrapped by the ring's key. Both encryptions are bound to tenant, owner
and name: a row copied to another place is unreadable there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import psycopg
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from psycopg.rows import tuple_row

from lily.repositories.keyrings import KEY_BYTES, Keyring, decrypt, encrypt
from lily.repositories.postgres.pool import Connection, Database
from lily.repositories.postgres.queries import load

_SQL = load("secrets.sql")
_PAGE = 500


@dataclass(frozen=True, slots=True)
class SecretName:
    """Whose secret it is (`connector/snowflake-eu`, `target/slack`) and what it is called there."""

    tenant_id: str
    owner: str
    name: str

    @property
    def context(self) -> bytes:
        # Lengths in front, so that no two names have the same context.
        parts = [part.encode() for part in (self.tenant_id, self.owner, self.name)]
        return b"lily secret" + b"".join(len(part).to_bytes(4) + part for part in parts)

    def parameters(self) -> dict[str, Any]:
        return {"tenant_id": self.tenant_id, "owner": self.owner, "name": self.name}


class PostgresSecrets:
    """What is stored is never readable without the ring."""

    def __init__(self, database: Database, keyring: Keyring) -> None:
        self._database = database
        self._keyring = keyring

    async def put(self, name: SecretName, value: bytes) -> None:
        """Store or replace a secret, under a fresh data key."""
        await self._database.fetch(_SQL["put_secret"], self._sealed(name, value))

    async def put_within(self, connection: Connection, name: SecretName, value: bytes) -> None:
        """The same, as a part of a transaction of that tenant."""
        await connection.execute(_SQL["put_secret"], self._sealed(name, value))

    async def put_once(self, name: SecretName, value: bytes) -> None:
        """Store a secret unless there is one."""
        await self._database.fetch(_SQL["put_secret_once"], self._sealed(name, value))

    async def get(self, name: SecretName) -> bytes | None:
        """The secret, or None; `SecretUnreadable` when it is there and cannot be decrypted."""
        rows = await self._database.fetch(_SQL["get_secret"], name.parameters())
        if not rows:
            return None
        key_id, wrapped_key, ciphertext = rows[0]
        data_key = self._keyring.unwrap(key_id, wrapped_key, name.context)
        return decrypt(AESGCM(data_key), ciphertext, name.context)

    async def delete(self, name: SecretName) -> None:
        await self._database.fetch(_SQL["delete_secret"], name.parameters())

    async def delete_within(self, connection: Connection, name: SecretName) -> None:
        """The same, as a part of a transaction of that tenant."""
        await connection.execute(_SQL["delete_secret"], name.parameters())

    def _sealed(self, name: SecretName, value: bytes) -> dict[str, Any]:
        data_key = os.urandom(KEY_BYTES)
        return name.parameters() | {
            "key_id": self._keyring.current,
            "wrapped_key": self._keyring.wrap(data_key, name.context),
            "ciphertext": encrypt(AESGCM(data_key), value, name.context),
        }


def rotate_keys(url: str, keyring: Keyring) -> int:
    """Wrap every data key that another key wraps with the current one; returns how many.

    Readers are not disturbed: at every moment a row has a key the ring knows. A secret that is replaced
    meanwhile is left as its writer made it.
    """
    rotated = 0
    with psycopg.connect(url, autocommit=True, row_factory=tuple_row) as connection:
        after: tuple[str, str, str] = ("", "", "")
        while True:
            wanted = {"current": keyring.current, "most": _PAGE}
            place = dict(zip(("tenant_id", "owner", "name"), after, strict=True))
            rows = connection.execute(_SQL["read_wrapped_otherwise"], wanted | place).fetchall()
            if not rows:
                return rotated
            for row in rows:
                rotated += _rewrap(connection, keyring, row)
            after = rows[-1][:3]


def _rewrap(connection: psycopg.Connection[Any], keyring: Keyring, row: tuple[Any, ...]) -> int:
    name, key_id, wrapped_key = SecretName(*row[:3]), row[3], row[4]
    data_key = keyring.unwrap(key_id, wrapped_key, name.context)
    fresh = {"key_id": keyring.current, "wrapped_key": keyring.wrap(data_key, name.context)}
    return connection.execute(_SQL["rewrap"], name.parameters() | fresh | {"was": wrapped_key}).rowcount
