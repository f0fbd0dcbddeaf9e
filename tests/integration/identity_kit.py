"""People, logins and calls for tests of who is asking."""

from __future__ import annotations

from typing import Any

import httpx
from rest_kit import ASSETS, Gateway

from lily.access.passwords import hash_password

AUTH = "/lily/v1/auth"
KEYS = "/lily/v1/api-keys"
PASSWORD = "correct horse battery staple"
_HASH = hash_password(PASSWORD)


def forget_everything(api: Gateway) -> None:
    """Start a test with nobody known; what a gateway remembers is of other credentials."""
    api.execute("TRUNCATE users, groups, group_members, group_roles, sessions, refresh_tokens, api_keys")
    api.execute("TRUNCATE revoked_tokens, login_attempts")


def add_user(api: Gateway, name: str = "ada", **columns: Any) -> None:
    row = {"tenant_id": "acme", "user_name": name, "roles": ["viewer"], "password_hash": _HASH}
    api.insert("users", row | columns)


def log_in(api: Gateway, name: str = "ada", password: str = PASSWORD, **more: Any) -> httpx.Response:
    body = {"tenant_id": "acme", "username": name, "password": password} | more
    return api.client.post(f"{AUTH}/login", json=body)


def tokens(api: Gateway, name: str = "ada", **more: Any) -> dict[str, Any]:
    answer = log_in(api, name, **more)
    assert answer.status_code == 200, answer.text
    granted: dict[str, Any] = answer.json()
    return granted


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def validate(api: Gateway, token: str) -> httpx.Response:
    return api.client.get(f"{AUTH}/validate", headers=bearer(token))


def read_status(api: Gateway, token: str) -> int:
    """How a read of an asset is answered: 404 is a yes, for there is none."""
    return api.client.get(f"{ASSETS}/x", headers=bearer(token)).status_code
