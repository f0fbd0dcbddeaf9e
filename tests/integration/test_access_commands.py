"""`lily policy explain` and `lily policy plan`, against a database as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from kit.databases import Databases
from kit.operators import Lily, operator_of
from lily.apps.cli import app
from lily.domain.errors import Unavailable
from lily.settings import Settings

POLICY = "00000000-0000-4000-8000-000000000001"
INSERT_ASSET = """
INSERT INTO assets (tenant_id, asset_id, asset_name, asset_type, user_tags, created_at, version, fields,
                    clock_time, clock_id)
VALUES ('acme', %s, 'x', 'table', '{pii}', now(), 1, 3, now(), gen_random_uuid())
"""
INSERT_POLICY = """
INSERT INTO policies (tenant_id, policy_id, role, access_type, effect, scope, value, created_by)
VALUES ('acme', %s, 'analyst', 'READ', 'allow', 'tag', 'pii', 'test')
"""


@pytest.fixture
def operator(settings_without_log: Settings, monkeypatch: pytest.MonkeyPatch) -> Lily:
    """Commands about the tenant acme."""
    run = operator_of(settings_without_log, monkeypatch)
    return lambda *arguments, stdin="": run(*arguments, "--tenant", "acme", stdin=stdin)


@pytest.fixture
def lily(operator: Lily, settings_without_log: Settings) -> Lily:
    """`lily policy`, where there are three assets and a policy."""
    with psycopg.connect(settings_without_log.database.url.get_secret_value()) as connection:
        connection.execute("TRUNCATE assets, policies")
        for number in range(3):
            connection.execute(INSERT_ASSET, [f"asset{number}"])
        connection.execute(INSERT_POLICY, [POLICY])
    return lambda *arguments, stdin="": operator("policy", *arguments, stdin=stdin)


def test_explain_names_the_policy_that_decided(lily: Lily) -> None:
    told: dict[str, Any] = json.loads(lily("explain", "asset0", "--user", "bob", "--role", "analyst"))
    assert (told["allowed"], told["reasons"]) == (True, [POLICY])
    told = json.loads(lily("explain", "asset0", "--user", "bob", "--role", "analyst", "--action", "WRITE"))
    assert (told["allowed"], told["reasons"]) == (False, ["no policy allows it"])


def test_plan_tells_who_loses_what_from_a_file_or_standard_input(lily: Lily, tmp_path: Path) -> None:
    change = json.dumps({"remove": [POLICY]})
    file = tmp_path / "change.json"
    file.write_text(change)
    for output in (lily("plan", str(file)), lily("plan", "-", stdin=change)):
        [effect] = [json.loads(line) for line in output.splitlines()]
        assert effect["principals"] == [{"kind": "role", "name": "analyst"}]
        assert (effect["access_type"], effect["gains"], effect["loses"]) == ("READ", 0, 3)
        assert effect["lost_examples"] == ["asset0", "asset1", "asset2"]


def test_explain_knows_the_roles_and_groups_the_directory_has_of_somebody(
    lily: Lily, settings_without_log: Settings
) -> None:
    with psycopg.connect(settings_without_log.database.url.get_secret_value()) as connection:
        connection.execute(
            "INSERT INTO users (tenant_id, user_name, active, roles)"
            " VALUES ('acme', 'bob', true, '{analyst}'), ('acme', 'carl', false, '{analyst}')"
        )
    told = json.loads(lily("explain", "asset0", "--user", "bob"))
    assert (told["allowed"], told["reasons"], told["roles"]) == (True, [POLICY], ["analyst"])
    told = json.loads(lily("explain", "asset0", "--user", "carl"))
    assert (told["allowed"], told["reasons"]) == (False, ["they are deactivated"])


def test_a_tenant_with_a_database_of_its_own_is_explained_and_planned_by_what_is_there(
    lily: Lily, settings_without_log: Settings, databases: Databases
) -> None:
    home = databases.dedicate(settings_without_log.database.url.get_secret_value(), "acme")
    with psycopg.connect(home) as connection:
        connection.execute(INSERT_ASSET, ["elsewhere"])
    told = json.loads(lily("explain", "elsewhere", "--user", "bob", "--role", "analyst"))
    assert (told["asset_exists"], told["allowed"]) == (True, True)
    [line] = lily("plan", "-", stdin=json.dumps({"remove": [POLICY]})).splitlines()
    assert json.loads(line)["lost_examples"] == ["elsewhere"]


def test_protection_rules_are_made_listed_and_removed(operator: Lily) -> None:
    rule_id = operator("protect", "add", "-", stdin='{"tag": "PII", "mask": {"kind": "hash"}}').strip()
    [line] = operator("protect", "list").splitlines()
    assert (json.loads(line)["rule_id"], json.loads(line)["mask"]) == (rule_id, {"kind": "hash"})
    operator("protect", "remove", rule_id)
    assert operator("protect", "list") == ""


def test_a_rule_is_made_and_removed_only_once_every_gateway_has_heard(
    operator: Lily,  # noqa: ARG001 - it sets the environment
    settings_without_log: Settings,
) -> None:
    common = ["--tenant", "acme", "--data-dir", str(settings_without_log.data_dir)]
    url = settings_without_log.database.url.get_secret_value()
    deaf = (
        "INSERT INTO access_listeners (listener, heard, lease_until) "
        "VALUES (gen_random_uuid(), 0, now() + interval '1 minute')"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(deaf)
        try:
            added = CliRunner().invoke(app, ["protect", "add", "-", *common], input='{"tag": "PII"}')
            [(rule_id,)] = connection.execute("SELECT rule_id::text FROM protection_rules").fetchall()
            removed = CliRunner().invoke(app, ["protect", "remove", rule_id, *common])
        finally:
            connection.execute("TRUNCATE access_listeners, protection_rules")
    for result in (added, removed):
        assert isinstance(result.exception, Unavailable)
        assert "not every gateway has confirmed" in str(result.exception)
