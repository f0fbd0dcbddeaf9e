"""Defences that are a property of the source: no SQL made of strings, no default secrets, no bombs."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel, SecretStr

from lily.domain.errors import MisconfiguredError
from lily.settings import Settings, load_settings

SOURCE = Path(__file__).parents[2] / "src" / "lily"
RUNS_SQL = {"execute", "executemany", "fetch", "stream", "copy"}
#: Where a statement has a name in it that no parameter can stand for; all of them put in constants only.
MADE_SQL = {
    "repositories/postgres/applier.py",
    "repositories/postgres/asset_lists.py",
    "repositories/postgres/visibility.py",
    "repositories/postgres/announcements.py",
    "tenancy/routes.py",
}


ON_THE_WAY = ("access", "ingest", "serving", "targets", "tenancy", "domain", "log", "repositories")


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders or (".",):
        for file in sorted((SOURCE / folder).rglob("*.py")):
            yield file.relative_to(SOURCE).as_posix(), ast.parse(file.read_text(encoding="utf-8"))


def is_made_of_strings(text: ast.expr) -> bool:
    """An f-string, a sum or product of strings, or `.format`; psycopg's own `sql.SQL(…).format` quotes."""
    if isinstance(text, ast.JoinedStr):
        return any(isinstance(part, ast.FormattedValue) for part in text.values)
    if isinstance(text, ast.BinOp):
        return isinstance(text.op, ast.Mod | ast.Add)
    called = (
        isinstance(text, ast.Call) and isinstance(text.func, ast.Attribute) and text.func.attr == "format"
    )
    if not called:
        return False
    formatted = ast.unparse(text.func.value)  # type: ignore[attr-defined]
    return "sql.SQL(" not in formatted and not formatted.startswith("statement")


def names_of_made_texts(module: ast.AST) -> set[str]:
    """What is assigned a text that is made of strings, anywhere in the module."""
    return {
        target.id
        for node in ast.walk(module)
        if isinstance(node, ast.Assign) and is_made_of_strings(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def made_sql(module: ast.AST) -> list[int]:
    """The lines where a statement runs that is made of strings, there or under a name."""
    made = names_of_made_texts(module)
    return [
        call.lineno
        for call in ast.walk(module)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in RUNS_SQL
        if call.args
        if is_made_of_strings(call.args[0])
        or (isinstance(call.args[0], ast.Name) and call.args[0].id in made)
    ]


def test_no_sql_is_made_of_strings() -> None:
    found = {
        f"{name}:{line}" for name, module in modules() if name not in MADE_SQL for line in made_sql(module)
    }
    assert found == set(), "put the query into queries/*.sql and its values into parameters"


@pytest.mark.parametrize(
    "source",
    [
        "connection.execute(f'SELECT {name}')",
        "connection.execute('SELECT ' + name)",
        "database.fetch('SELECT %s' % name)",
        "cursor.execute(_SQL['x'].format(name=name))",
        "query = f'SELECT {name}'; cursor.execute(query)",
    ],
)
def test_the_rule_above_sees_sql_made_of_strings(source: str) -> None:
    assert made_sql(ast.parse(source))


def test_nothing_on_the_way_of_a_request_evaluates_text_or_unpacks_archives_or_xml() -> None:
    forbidden_imports = {
        "zipfile",
        "tarfile",
        "gzip",
        "zlib",
        "bz2",
        "lzma",
        "xml",
        "lxml",
        "pickle",
        "marshal",
        "yaml",
    }
    forbidden_calls = {"eval", "exec", "compile", "__import__"}
    for name, module in modules(*ON_THE_WAY):
        for node in ast.walk(module):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            packages = {each.partition(".")[0] for each in imported}
            assert not packages & forbidden_imports, (
                f"{name} imports {packages}: bound what it unpacks, then list it"
            )
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in forbidden_calls, f"{name}:{node.lineno} runs text"


def secret_fields(model: type[BaseModel], path: str = "LILY") -> Iterator[tuple[str, object, bool]]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from secret_fields(kind, f"{path}_{name.upper()}")
        elif kind is SecretStr or any(word in name for word in ("secret", "password", "key", "token")):
            yield f"{path}_{name.upper()}", field.get_default(call_default_factory=True), field.is_required()


def test_no_setting_has_a_default_secret() -> None:
    found = list(secret_fields(Settings))
    assert {name for name, _, required in found if required} >= {
        "LILY_AUTH_SECRET",
        "LILY_AUDIT_KEY",
        "LILY_DATABASE_URL",
        "LILY_DATABASE_GATEWAY_PASSWORD",
    }
    for name, default, required in found:
        text = default.get_secret_value() if isinstance(default, SecretStr) else default
        assert required or text in ("", None), f"{name} has a default"


def test_a_start_without_secrets_fails_and_names_every_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in [name for name in os.environ if name.startswith("LILY_")]:
        monkeypatch.delenv(variable)
    with pytest.raises(MisconfiguredError) as refusal:
        load_settings(tmp_path)
    for variable in ("AUTH_SECRET", "AUDIT_KEY", "DATABASE_URL", "DATABASE_GATEWAY_PASSWORD"):
        assert f"LILY_{variable}" in refusal.value.message


@pytest.mark.parametrize("variable", ["LILY_AUTH_SECRET", "LILY_AUDIT_KEY", "LILY_DATABASE_GATEWAY_PASSWORD"])
def test_a_start_without_one_secret_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    said = {
        "LILY_AUTH_SECRET": "a" * 32,
        "LILY_AUDIT_KEY": "b" * 16,
        "LILY_DATABASE_URL": "postgresql://c",
        "LILY_DATABASE_GATEWAY_PASSWORD": "d",
        "LILY_KAFKA_BOOTSTRAP_SERVERS": "e:1",
        "LILY_LAKE_WAREHOUSE": "/f",
        "LILY_SPARK_CHECKPOINTS": "/g",
    }
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    load_settings(tmp_path)
    monkeypatch.delenv(variable)
    with pytest.raises(MisconfiguredError, match=variable):
        load_settings(tmp_path)
    if variable != "LILY_DATABASE_GATEWAY_PASSWORD":
        monkeypatch.setenv(variable, "short")
        with pytest.raises(MisconfiguredError, match=variable):
            load_settings(tmp_path)
