"""The console's session cookie, and the token that shows a request was made by the console itself."""

from __future__ import annotations

import hmac
from hashlib import sha256

from fastapi import Request
from fastapi.responses import Response

from lily.access.sessions import SESSION_SECONDS
from lily.domain.errors import Forbidden

CSRF_HEADER = "x-lily-csrf"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Cookies:
    """Out of reach of scripts and of other sites; over https also bound to this host."""

    def __init__(self, secret: str, public_url: str) -> None:
        self._secret = secret
        self._secure = public_url.startswith("https://")
        prefix = "__Host-" if self._secure else ""
        self.session_name = f"{prefix}lily_session"
        self.login_name = f"{prefix}lily_login"

    def set(self, response: Response, name: str, value: str, seconds: int = SESSION_SECONDS) -> None:
        response.set_cookie(
            name, value, max_age=seconds, path="/", secure=self._secure, httponly=True, samesite="lax"
        )

    def clear(self, response: Response, name: str) -> None:
        response.delete_cookie(name, path="/", secure=self._secure, httponly=True, samesite="lax")

    def csrf_token(self, session_id: str) -> str:
        return hmac.new(self._secret.encode(), f"csrf {session_id}".encode(), sha256).hexdigest()

    def check_csrf(self, request: Request, session_id: str) -> None:
        """Refuse a request that changes something unless it carries the session's token."""
        if request.method in _SAFE_METHODS:
            return
        sent = request.headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(sent.encode(), self.csrf_token(session_id).encode()):
            raise Forbidden(
                f"send the csrf_token of GET /lily/v1/auth/validate in the header {CSRF_HEADER}: "
                "a session cookie alone may not change anything"
            )
