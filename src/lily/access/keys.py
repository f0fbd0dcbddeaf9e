"""The public keys of one identity provider, found by discovery and kept as long as the provider does."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import jwt
import structlog

from lily.domain.errors import Unauthenticated, Unavailable

#: Signed with a private key, every one: with a shared secret whoever verifies could also sign.
ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")
FRESH_SECONDS = 3600.0
#: How long keys are used after the provider was last heard of.
MAX_AGE_SECONDS = 24 * 3600.0
#: How often a token with an unknown key may make us ask the provider.
COOLDOWN_SECONDS = 10.0
_TIMEOUT_SECONDS = 3.0
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Provider:
    """What discovery tells about a provider."""

    jwks_uri: str
    authorization_endpoint: str
    token_endpoint: str


def is_safe(url: str) -> bool:
    """Whether nobody on the way can answer in the provider's place."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


def new_client() -> httpx.AsyncClient:
    """Redirects are not followed: the provider is where the settings say."""
    return httpx.AsyncClient(timeout=_TIMEOUT_SECONDS, follow_redirects=False)


class KeySet:
    """A key in use is found without asking anybody. While the provider is away, known keys stay good."""

    def __init__(self, issuer: str, http: httpx.AsyncClient) -> None:
        self._issuer = issuer
        self._http = http
        self._keys: dict[str, dict[str, Any]] = {}
        self._provider: Provider | None = None
        self._loaded_at = self._tried_at = float("-inf")
        self._turn = asyncio.Lock()
        self._refreshing: asyncio.Task[None] | None = None

    async def find(self, key_id: str, algorithm: str) -> jwt.PyJWK:
        """The key of this id; `Unauthenticated` when there is none, `Unavailable` when nobody can tell."""
        age = time.monotonic() - self._loaded_at
        if key_id not in self._keys or age > MAX_AGE_SECONDS:
            await self._refresh()
        elif age > FRESH_SECONDS and (self._refreshing is None or self._refreshing.done()):
            self._refreshing = asyncio.create_task(self._refresh_quietly())
        key = self._keys.get(key_id)
        if key is None:
            raise Unauthenticated("the token is not valid: its key is not one of the issuer's")
        if key.get("alg", algorithm) != algorithm:
            raise Unauthenticated(f"the token is not valid: its key is not for {algorithm}")
        try:
            return jwt.PyJWK(key, algorithm)
        except jwt.PyJWTError:
            raise Unauthenticated(f"the token is not valid: its key is not for {algorithm}") from None

    async def provider(self) -> Provider:
        """Where the provider's endpoints are."""
        if self._provider is None:
            await self._refresh()
        if self._provider is None:
            raise self._unavailable()
        return self._provider

    async def _refresh_quietly(self) -> None:
        try:
            await self._refresh()
        except Unavailable as error:
            _log.warning("keys_not_refreshed", issuer=self._issuer, error=error.message)

    async def _refresh(self) -> None:
        """Ask the provider, at most once per cooldown; `Unavailable` when it did not answer."""
        async with self._turn:
            if time.monotonic() - self._tried_at >= COOLDOWN_SECONDS:
                self._tried_at = time.monotonic()
                try:
                    await self._load()
                except (httpx.HTTPError, ValueError, KeyError, TypeError, RecursionError) as error:
                    _log.warning("issuer_unavailable", issuer=self._issuer, error=repr(error))
            if self._loaded_at < self._tried_at:
                raise self._unavailable()

    async def _load(self) -> None:
        document = await self._get(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        if document["issuer"] != self._issuer:
            raise ValueError(f"discovery names another issuer: {document['issuer']!r}")
        provider = Provider(*(str(document[name]) for name in Provider.__slots__))
        keys = (await self._get(provider.jwks_uri))["keys"]
        self._keys = {str(key["kid"]): key for key in keys if _signs(key)}
        self._provider = provider
        self._loaded_at = time.monotonic()

    async def _get(self, url: str) -> dict[str, Any]:
        if not is_safe(url):
            raise ValueError(f"not https: {url}")
        response = await self._http.get(url)
        response.raise_for_status()
        document = response.json()
        if not isinstance(document, dict):
            raise ValueError(f"not an object: {url}")
        return document

    def _unavailable(self) -> Unavailable:
        return Unavailable(
            f"the identity provider {self._issuer} does not answer: the token cannot be verified; try again",
            part="identity-provider",
        )


def _signs(key: dict[str, Any]) -> bool:
    public = key.get("kty") in ("RSA", "EC", "OKP")
    return (
        public and "kid" in key and key.get("use", "sig") == "sig" and key.get("alg", "RS256") in ALGORITHMS
    )
