"""Secrets at rest: readable with the ring, at their own place, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import psycopg
import pytest

from lily.repositories.keyrings import Keyring, LocalKeyring, SecretUnreadable, new_key, read_keys
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.secrets import PostgresSecrets, SecretName, rotate_keys
from lily.settings import Settings

PASSWORD = SecretName("acme", "connector/warehouse", "password")
T = TypeVar("T")
OLD, NEW = new_key("old"), new_key("new")


def ring(*keys: str) -> LocalKeyring:
    return LocalKeyring(read_keys(",".join(keys), "LILY_SECRETS_KEYS"))


def run(settings: Settings, keyring: Keyring, use: Callable[[PostgresSecrets], Awaitable[T]]) -> T:
    async def running() -> T:
        database = Database(settings.database)
        await database.open()
        try:
            return await use(PostgresSecrets(database, keyring))
        finally:
            await database.close()

    return asyncio.run(running())


def rows(settings: Settings, change: str = "") -> list[tuple[Any, ...]]:
    with psycopg.connect(settings.database.url.get_secret_value(), autocommit=True) as connection:
        if change:
            connection.execute(change.encode())
        return connection.execute("SELECT * FROM secrets ORDER BY 1, 2, 3").fetchall()


def test_a_secret_is_put_read_replaced_and_deleted(shared_settings: Settings) -> None:
    async def use(secrets: PostgresSecrets) -> None:
        assert await secrets.get(PASSWORD) is None
        await secrets.put(PASSWORD, b"hunter2")
        assert await secrets.get(PASSWORD) == b"hunter2"
        await secrets.put(PASSWORD, b"hunter3")
        assert await secrets.get(PASSWORD) == b"hunter3"
        await secrets.delete(PASSWORD)
        assert await secrets.get(PASSWORD) is None

    run(shared_settings, ring(NEW), use)


def test_the_database_never_sees_the_secret(shared_settings: Settings) -> None:
    run(shared_settings, ring(NEW), lambda secrets: secrets.put(PASSWORD, b"hunter2"))
    assert not any(
        b"hunter2" in cell for row in rows(shared_settings) for cell in row if isinstance(cell, bytes)
    )


@pytest.mark.parametrize(
    "place",
    [
        SecretName("umbrella", PASSWORD.owner, PASSWORD.name),
        SecretName("acme", "connector/other", PASSWORD.name),
        SecretName("acme", PASSWORD.owner, "token"),
    ],
)
def test_a_row_copied_to_another_tenant_owner_or_name_is_unreadable(
    shared_settings: Settings, place: SecretName
) -> None:
    run(shared_settings, ring(NEW), lambda secrets: secrets.put(PASSWORD, b"hunter2"))
    rows(
        shared_settings,
        f"""INSERT INTO secrets
            SELECT '{place.tenant_id}', '{place.owner}', '{place.name}', key_id, wrapped_key, ciphertext
              FROM secrets WHERE (tenant_id, owner, name) = ('acme', 'connector/warehouse', 'password')""",
    )
    with pytest.raises(SecretUnreadable):
        run(shared_settings, ring(NEW), lambda secrets: secrets.get(place))


def test_a_changed_ciphertext_is_refused(shared_settings: Settings) -> None:
    run(shared_settings, ring(NEW), lambda secrets: secrets.put(PASSWORD, b"hunter2"))
    rows(
        shared_settings,
        "UPDATE secrets SET ciphertext = set_byte(ciphertext, 14, get_byte(ciphertext, 14) # 1)",
    )
    with pytest.raises(SecretUnreadable):
        run(shared_settings, ring(NEW), lambda secrets: secrets.get(PASSWORD))


def test_rotation_rewraps_everything_while_secrets_are_read_and_the_old_key_can_go(
    settings: Settings,
) -> None:
    names = [SecretName(f"tenant-{n % 3}", f"connector/{n}", "password") for n in range(600)]

    async def fill(secrets: PostgresSecrets) -> None:
        for name in names:
            await secrets.put(name, name.owner.encode())

    async def read(secrets: PostgresSecrets) -> bool:
        return all([await secrets.get(name) == name.owner.encode() for name in names[::20]])

    async def read_meanwhile(secrets: PostgresSecrets) -> tuple[int, bool]:
        url = settings.database.url.get_secret_value()
        rotating = asyncio.create_task(asyncio.to_thread(rotate_keys, url, ring(NEW, OLD)))
        readable = True
        while not rotating.done():
            readable = readable and await read(secrets)
        return await rotating, readable

    run(settings, ring(OLD), fill)
    before = {row[:3]: row[5] for row in rows(settings)}
    assert run(settings, ring(OLD, NEW), read_meanwhile) == (600, True)
    assert {row[:3]: row[5] for row in rows(settings)} == before, "the secrets themselves are not touched"
    assert {row[3] for row in rows(settings)} == {"new"}
    assert run(settings, ring(NEW), read)
    assert rotate_keys(settings.database.url.get_secret_value(), ring(NEW, OLD)) == 0


def test_a_secret_replaced_during_the_rotation_stays_as_its_writer_made_it(settings: Settings) -> None:
    run(settings, ring(OLD), lambda secrets: secrets.put(PASSWORD, b"before"))

    class Interrupted(LocalKeyring):
        def wrap(self, data_key: bytes, context: bytes) -> bytes:
            run(settings, ring(OLD), lambda secrets: secrets.put(PASSWORD, b"meanwhile"))
            return super().wrap(data_key, context)

    interrupted = Interrupted(read_keys(f"{NEW},{OLD}", "LILY_SECRETS_KEYS"))
    assert rotate_keys(settings.database.url.get_secret_value(), interrupted) == 0
    assert run(settings, ring(OLD), lambda secrets: secrets.get(PASSWORD)) == b"meanwhile"


def test_another_tenant_s_secret_is_not_found(shared_settings: Settings) -> None:
    run(shared_settings, ring(NEW), lambda secrets: secrets.put(PASSWORD, b"hunter2"))
    other = SecretName("umbrella-2", PASSWORD.owner, PASSWORD.name)
    assert run(shared_settings, ring(NEW), lambda secrets: secrets.get(other)) is None
