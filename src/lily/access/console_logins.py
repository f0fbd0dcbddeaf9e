"""Logging in to the console with an identity provider: authorization code with PKCE (RFC 7636)."""

from __future__ import annotations

import base64
import hmac
import re
import secrets
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import httpx
import jwt

from lily.access.issuers import Issuer, Issuers
from lily.access.keys import is_safe
from lily.access.requests import MalformedRequest
from lily.domain.errors import MisconfiguredError, NotFound, Unauthenticated, Unavailable
from lily.repositories.postgres.identities import Session

CALLBACK = "/lily/v1/auth/callback"
LOGIN_SECONDS = 600
_AUDIENCE = "lily-login"
# A place on this site: not //elsewhere, nor /\elsewhere, which browsers take for the same.
_LOCAL_PATH = re.compile(r"/(?![/\\])[!-\[\]-~]*")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the provider sent the browser back with."""

    code: str
    state: str
    issuer: str = ""


class ConsoleLogins:
    """What must be known at the end of a login travels with the browser, signed."""

    def __init__(self, secret: str, public_url: str, issuers: Issuers) -> None:
        self._secret = secret
        self._redirect_uri = public_url.rstrip("/") + CALLBACK
        self._issuers = issuers
        if not public_url and any(issuer.settings.client_id for issuer in issuers.all):
            raise MisconfiguredError(
                "an issuer with a client_id lets browsers log in, which needs LILY_AUTH_PUBLIC_URL: "
                "the address at which browsers see Lily"
            )

    def providers(self) -> list[str]:
        """The names of the providers one can log in with."""
        return [issuer.settings.name for issuer in self._issuers.all if issuer.settings.client_id]

    async def start(self, name: str, return_to: str) -> tuple[str, str]:
        """Where to send the browser, and what it must keep meanwhile."""
        issuer = self._named(name)
        if not _LOCAL_PATH.fullmatch(return_to):
            raise MalformedRequest("return_to must be a path on this site, such as /assets")
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        question = {
            "response_type": "code",
            "client_id": issuer.settings.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": "openid profile email",
            "state": state,
            "nonce": nonce,
            "code_challenge": base64.urlsafe_b64encode(sha256(verifier.encode()).digest())
            .decode()
            .rstrip("="),
            "code_challenge_method": "S256",
        }
        kept = {"state": state, "nonce": nonce, "verifier": verifier, "name": name, "return_to": return_to}
        times = {"aud": _AUDIENCE, "exp": int(time.time()) + LOGIN_SECONDS}
        place = (await issuer.provider()).authorization_endpoint
        url = f"{place}{'&' if '?' in place else '?'}{urlencode(question)}"
        return url, jwt.encode(kept | times, self._secret, algorithm="HS256")

    async def finish(self, kept: str, answer: Answer) -> tuple[Session, str]:
        """A session for whom the provider vouches for, and where they wanted to go."""
        login = self._read(kept)
        issuer = self._named(login["name"])
        if not hmac.compare_digest(answer.state.encode(), login["state"].encode()):
            raise Unauthenticated("this is not the answer to the login that was started here; log in again")
        if answer.issuer and answer.issuer != issuer.settings.issuer:
            raise Unauthenticated("the answer is of another identity provider; log in again")
        token = await self._exchange(issuer, answer.code, login["verifier"])
        claims = await issuer.verify(token, issuer.settings.client_id)
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), login["nonce"].encode()):
            raise Unauthenticated("the identity provider vouched for another login; log in again")
        vouched = issuer.vouched(token, claims)
        roles, groups = sorted(vouched.roles), sorted(vouched.groups)
        return Session(vouched.tenant_id, None, vouched.subject, roles, groups), login["return_to"]

    def _named(self, name: str) -> Issuer:
        issuer = self._issuers.named(name)
        if issuer is None or not issuer.settings.client_id:
            known = ", ".join(self.providers()) or "none"
            raise NotFound(f"there is no identity provider {name!r} to log in with; known: {known}")
        return issuer

    def _read(self, kept: str) -> dict[str, str]:
        try:
            claims = jwt.decode(kept, self._secret, algorithms=["HS256"], audience=_AUDIENCE)
        except (jwt.PyJWTError, ValueError):
            raise Unauthenticated("the login took too long or was not started here; log in again") from None
        return {name: str(claims[name]) for name in ("state", "nonce", "verifier", "name", "return_to")}

    async def _exchange(self, issuer: Issuer, code: str, verifier: str) -> str:
        """The ID token for a code."""
        settings = issuer.settings
        place = (await issuer.provider()).token_endpoint
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "client_id": settings.client_id,
            "code_verifier": verifier,
        }
        secret = settings.client_secret.get_secret_value()
        auth = httpx.BasicAuth(settings.client_id, secret) if secret else None
        try:
            if not is_safe(place):
                raise httpx.UnsupportedProtocol(f"not https: {place}")
            response = await self._issuers.exchange(place, form, auth)
            answer: Any = response.json()
        except (httpx.HTTPError, ValueError) as error:
            raise Unavailable(f"the identity provider {settings.name} does not answer; try again") from error
        token = answer.get("id_token") if response.is_success and isinstance(answer, dict) else None
        if not isinstance(token, str):
            raise Unauthenticated("the identity provider does not accept the code; log in again")
        return token
