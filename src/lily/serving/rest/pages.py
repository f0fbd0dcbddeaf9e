"""Pages (AIP-158): how large one is, and the signed token that says where the next one starts."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from lily.access.requests import MalformedRequest

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 1000
_MAC_BYTES = 16


def page_size(requested: int) -> int:
    """0 means the default; more than the maximum means the maximum."""
    if requested < 0:
        raise MalformedRequest(f"page_size must be 0 or more, not {requested}; 0 means {DEFAULT_PAGE_SIZE}")
    return min(requested or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)


class PageTokens:
    """Tokens are valid only for the question they were given for."""

    def __init__(self, secret: str) -> None:
        self._key = sha256(b"page-token\x1f" + secret.encode()).digest()

    def issue(self, place: Sequence[int | str], question: Sequence[str]) -> str:
        payload = json.dumps(list(place), separators=(",", ":")).encode()
        return urlsafe_b64encode(self._mac(payload, question) + payload).decode().rstrip("=")

    def read(self, token: str, question: Sequence[str]) -> list[Any]:
        """The place; `MalformedRequest` when the token is not ours or belongs to another question."""
        try:
            raw = urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
        except ValueError:
            raw = b""
        mac, payload = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not payload or not hmac.compare_digest(mac, self._mac(payload, question)):
            raise MalformedRequest(
                "page_token is not valid for this request; repeat the request that gave it, or leave it out"
            )
        return list(json.loads(payload))

    def _mac(self, payload: bytes, question: Sequence[str]) -> bytes:
        message = json.dumps(list(question)).encode() + b"\x1f" + payload
        return hmac.new(self._key, message, sha256).digest()[:_MAC_BYTES]
