"""An identity provider is configured in one variable, and refused when it would let in too much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lily.domain.errors import MisconfiguredError
from lily.settings import load_settings

KEYCLOAK: dict[str, Any] = {
    "name": "keycloak",
    "issuer": "https://id.example.com/realms/acme",
    "audience": "lily",
    "tenant": "acme",
    "roles": {"data-stewards": ["steward"]},
}


def load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, issuer: dict[str, Any]) -> Any:
    values = {
        "LILY_AUTH_SECRET": "s" * 40,
        "LILY_AUTH_ISSUERS": json.dumps([issuer]),
        "LILY_AUDIT_KEY": "k" * 40,
        "LILY_DATABASE_URL": "postgresql://127.0.0.1/x",
        "LILY_DATABASE_GATEWAY_PASSWORD": "p",
        "LILY_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:9",
        "LILY_LAKE_WAREHOUSE": "/x",
        "LILY_SPARK_CHECKPOINTS": "/x",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return load_settings(tmp_path).auth.issuers


def test_an_issuer_is_read_from_its_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    [issuer] = load(monkeypatch, tmp_path, KEYCLOAK)
    assert (issuer.name, issuer.tenant, issuer.roles) == (
        "keycloak",
        "acme",
        {"data-stewards": ("steward",)},
    )


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "http://id.example.com"},
        {"issuer": "id.example.com"},
        {"tenant": ""},
        {"tenant_claim": "tenant", "tenants": ["acme"]},
        {"tenant": "", "tenant_claim": "tenant"},
        {"tenant": "a/b"},
        {"audience": ""},
        {"client_id": "lily"},
        {"name": "Key Cloak"},
        {"colour": "red"},
    ],
    ids=str,
)
def test_an_issuer_that_would_let_in_too_much_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: dict[str, Any]
) -> None:
    with pytest.raises(MisconfiguredError, match="LILY_AUTH_ISSUERS"):
        load(monkeypatch, tmp_path, KEYCLOAK | change)
