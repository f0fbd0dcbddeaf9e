"""Secrets Lily hands out once and then knows only by their hash: API keys and refresh tokens."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from hashlib import sha256

from lily.domain.tenants import TENANT_NAME

API_KEY = "lilykey"
REFRESH = "lilyrefresh"
# The tenant is part of the text, since row-level security shows nothing to who does not name one.
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_SHAPE = re.compile(rf"(lilykey|lilyrefresh)~({TENANT_NAME})~({_UUID})~([A-Za-z0-9_-]{{43}})")


@dataclass(frozen=True, slots=True)
class Secret:
    """`reference` is the id of the key or session it belongs to."""

    kind: str
    tenant_id: str
    reference: str
    value: str

    @property
    def hash(self) -> bytes:
        return sha256(self.value.encode()).digest()

    @property
    def text(self) -> str:
        return f"{self.kind}~{self.tenant_id}~{self.reference}~{self.value}"


def new_value() -> str:
    """256 random bits."""
    return secrets.token_urlsafe(32)


def read_secret(kind: str, text: str) -> Secret | None:
    """The secret a text is, or None when it is none of this kind."""
    match = _SHAPE.fullmatch(text)
    return Secret(*match.groups()) if match and match[1] == kind else None
