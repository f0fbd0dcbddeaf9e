"""What the operator does by commands is in the audit of the tenant it is done to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kit.eventually import eventually
from kit.operators import Lily, operator_of
from lily.access.audit import AuditTrail
from lily.settings import Settings

RULE = '{"tag": "PII", "mask": {"kind": "hash"}}'


@pytest.fixture
def lily(settings_without_log: Settings, monkeypatch: pytest.MonkeyPatch) -> Lily:
    run = operator_of(settings_without_log, monkeypatch)
    return lambda *arguments, stdin="": run(*arguments, stdin=stdin).strip()


def noted(settings: Settings, tenant: str) -> list[tuple[Any, ...]]:
    what = b"SELECT action, resource_kind, resource_id, actor, address FROM audit"
    query = what + b" WHERE tenant_id = %s ORDER BY seq"
    with psycopg.connect(settings.database.url.get_secret_value()) as connection:
        return connection.execute(query, [tenant]).fetchall()


def test_every_command_that_changes_something_leaves_an_entry_and_the_chain_holds(
    lily: Lily, settings_without_log: Settings, tmp_path: Path
) -> None:
    of = ("--tenant", "acme")
    lily("tenant", "create", "acme")
    lily("tenant", "config", "acme", "--max-assets", "5")
    lily("tenant", "config", "acme")  # this only looks
    lily("user", "add", "bob", *of, "--role", "viewer", stdin="a long enough password\n")
    lily("user", "roles", "bob", *of, "--role", "editor")
    lily("user", "password", "bob", *of, stdin="another long password\n")
    lily("user", "disable", "bob", *of)
    lily("user", "enable", "bob", *of)
    lily("key", "create", "ci", *of, "--role", "viewer")
    key = json.loads(lily("key", "list", *of))["key_id"]
    lily("key", "revoke", key, *of)
    lily("token", *of, "--role", "owner")
    config = '{"host": "127.0.0.1", "database": "d", "user": "u"}'
    secret = tmp_path / "secret"
    secret.write_text("x")
    connector = lily(
        "connector", "add", "postgres", "db", *of, "--config", config, "--secret-file", str(secret)
    )
    lily("connector", "remove", connector, *of)
    rule = lily("protect", "add", "-", *of, stdin=RULE)
    lily("protect", "remove", rule, *of)
    lily("secrets", "rotate")
    entries = noted(settings_without_log, "acme")
    assert [entry[:3] for entry in entries] == [
        ("create", "tenant", "acme"),
        ("update", "tenant", "acme"),
        ("create", "user", "bob"),
        ("update", "user", "bob"),
        ("update", "user", "bob"),
        ("disable", "user", "bob"),
        ("enable", "user", "bob"),
        ("create", "api_key", key),
        ("revoke", "api_key", key),
        ("create", "token", "local-operator"),
        ("create", "connector", connector),
        ("delete", "connector", connector),
        ("create", "protection_rule", rule),
        ("delete", "protection_rule", rule),
    ]
    assert {entry[3:] for entry in entries} == {("local-operator", "local")}
    assert ("rotate", "secret") in [entry[:2] for entry in noted(settings_without_log, "*")]
    lily("audit", "verify")


def test_what_is_noted_while_postgresql_is_away_is_in_the_chain_later(
    lily: Lily, settings_without_log: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = settings_without_log.database.url.get_secret_value()
    monkeypatch.setenv("LILY_DATABASE_URL", "postgresql://lily:x@127.0.0.1:1/lily")
    lily("token", "--tenant", "waiting", "--role", "viewer")
    assert noted(settings_without_log, "waiting") == []
    monkeypatch.setenv("LILY_DATABASE_URL", url)
    key = settings_without_log.audit.key.get_secret_value()
    folder = settings_without_log.data_dir / "audit"
    with AuditTrail(url, key, folder).running():
        eventually(lambda: len(noted(settings_without_log, "waiting")) == 1)
