"""Keys of an identity provider: asked for seldom, believed only from where the settings say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from lily.access import keys
from lily.access.keys import KeySet
from lily.domain.errors import Unauthenticated, Unavailable

ISSUER = "https://id.example.com/acme"
PUBLIC = ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key(), as_dict=True)


class Provider:
    """Answers discovery and JWKS; `answers` may be changed meanwhile."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.discovery: dict[str, Any] = {
            "issuer": ISSUER,
            "jwks_uri": f"{ISSUER}/keys",
            "authorization_endpoint": f"{ISSUER}/authorize",
            "token_endpoint": f"{ISSUER}/token",
        }
        self.keys: list[dict[str, Any]] = [{**PUBLIC, "kid": "1"}]
        self.status = 200

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(str(request.url))
        body = {"keys": self.keys} if request.url.path.endswith("/keys") else self.discovery
        return httpx.Response(self.status, json=body)

    def run(self, act: Callable[[KeySet], Awaitable[None]]) -> None:
        async def inside() -> None:
            async with httpx.AsyncClient(transport=httpx.MockTransport(self)) as http:
                await act(KeySet(ISSUER, http))

        asyncio.run(inside())


@pytest.fixture
def provider() -> Provider:
    return Provider()


def test_a_known_key_is_found_without_asking_again(provider: Provider) -> None:
    async def act(found: KeySet) -> None:
        for _ in range(5):
            await found.find("1", "ES256")

    provider.run(act)
    assert provider.asked == [f"{ISSUER}/.well-known/openid-configuration", f"{ISSUER}/keys"]


def test_unknown_keys_do_not_make_us_ask_again_and_again(provider: Provider) -> None:
    async def act(found: KeySet) -> None:
        await found.find("1", "ES256")
        for number in range(100):
            with pytest.raises(Unauthenticated):
                await found.find(f"made up {number}", "ES256")

    provider.run(act)
    assert len(provider.asked) == 2


def test_a_new_key_is_found_after_the_pause(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "COOLDOWN_SECONDS", 0.0)

    async def act(found: KeySet) -> None:
        await found.find("1", "ES256")
        provider.keys = [{**PUBLIC, "kid": "2"}]
        await found.find("2", "ES256")
        with pytest.raises(Unauthenticated):
            await found.find("1", "ES256")

    provider.run(act)


def test_a_provider_that_is_away_is_unavailable_and_known_keys_stay_good(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "COOLDOWN_SECONDS", 0.0)

    async def act(found: KeySet) -> None:
        await found.find("1", "ES256")
        provider.status = 503
        with pytest.raises(Unavailable):
            await found.find("2", "ES256")
        await found.find("1", "ES256")

    provider.run(act)


def test_a_provider_that_was_never_there_lets_nobody_in(provider: Provider) -> None:
    provider.status = 500

    async def act(found: KeySet) -> None:
        for _ in range(3):
            with pytest.raises(Unavailable):
                await found.find("1", "ES256")

    provider.run(act)
    assert len(provider.asked) == 1


def test_keys_are_not_kept_forever_without_the_provider(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "COOLDOWN_SECONDS", 0.0)
    monkeypatch.setattr(keys, "MAX_AGE_SECONDS", -1.0)

    async def act(found: KeySet) -> None:
        await found.find("1", "ES256")
        provider.status = 503
        with pytest.raises(Unavailable):
            await found.find("1", "ES256")

    provider.run(act)


@pytest.mark.parametrize(
    "discovery",
    [
        {"issuer": "https://evil.example.com"},
        {"issuer": None},
        {"jwks_uri": "http://id.example.com/keys"},
        {"jwks_uri": "file:///etc/passwd"},
    ],
    ids=str,
)
def test_discovery_that_leads_elsewhere_is_not_followed(
    provider: Provider, discovery: dict[str, Any]
) -> None:
    provider.discovery |= discovery

    async def act(found: KeySet) -> None:
        with pytest.raises(Unavailable):
            await found.find("1", "ES256")

    provider.run(act)
    assert len(provider.asked) == 1


@pytest.mark.parametrize(
    "key",
    [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "1"},
        {**PUBLIC, "kid": "1", "use": "enc"},
        {**PUBLIC, "kid": "1", "alg": "HS256"},
        {**PUBLIC, "kid": "1", "alg": "ES512"},
        {**PUBLIC, "kid": "1", "crv": "P-521"},
        PUBLIC,
    ],
    ids=["a shared secret", "for encryption", "for HMAC", "another algorithm", "another curve", "no id"],
)
def test_a_key_that_is_not_for_the_algorithm_is_not_used(provider: Provider, key: dict[str, Any]) -> None:
    provider.keys = [key]

    async def act(found: KeySet) -> None:
        with pytest.raises(Unauthenticated):
            await found.find("1", "ES256")

    provider.run(act)
