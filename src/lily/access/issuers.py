"""Tokens of identity providers, each believed because it is configured, not because a token names it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import httpx
import jwt

from lily.access.keys import ALGORITHMS, KeySet, Provider, new_client
from lily.access.scopes import SCOPES
from lily.domain.errors import Unauthenticated
from lily.settings import IssuerSettings

CLOCK_SKEW_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Vouched:
    """Whom a provider vouches for; `scopes` None when its token names no scope of ours."""

    tenant_id: str
    subject: str
    groups: frozenset[str]
    roles: frozenset[str]
    scopes: frozenset[str] | None
    credential_id: str
    expires: float


class Issuer:
    """One configured identity provider."""

    def __init__(self, settings: IssuerSettings, http: httpx.AsyncClient) -> None:
        self.settings = settings
        self._keys = KeySet(settings.issuer, http)

    async def verify(self, token: str, audience: str) -> dict[str, Any]:
        """The claims of a token this provider signed for this audience."""
        algorithm, key_id = _signature(token)
        key = await self._keys.find(key_id, algorithm)
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=audience,
                issuer=self.settings.issuer,
                leeway=CLOCK_SKEW_SECONDS,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except jwt.ExpiredSignatureError:
            raise Unauthenticated("the token has expired; ask for a new one") from None
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            raise Unauthenticated(f"the token is not valid: {error}") from None
        self._check_party(claims, audience)
        return claims

    def _check_party(self, claims: dict[str, Any], audience: str) -> None:
        """An ID token (its audience is a client) is for the client that asked for it, and for no other."""
        audiences = _texts(claims["aud"])
        party = claims.get("azp")
        if audience != self.settings.client_id:
            return
        if (len(audiences) > 1 and party is None) or (party is not None and party != audience):
            raise Unauthenticated("the token is not valid: it was given to another client (azp)")

    async def provider(self) -> Provider:
        return await self._keys.provider()

    def vouched(self, token: str, claims: dict[str, Any]) -> Vouched:
        """What verified claims mean here."""
        settings = self.settings
        groups = frozenset(_texts(_claim(claims, settings.groups_claim)))
        named = str(claims.get("scope") or " ".join(_texts(claims.get("scp")))).split()
        token_id = claims.get("jti") if isinstance(claims.get("jti"), str) else None
        return Vouched(
            tenant_id=self._tenant(claims),
            subject=_subject(_claim(claims, settings.subject_claim)),
            groups=groups,
            roles=frozenset(role for group in groups for role in settings.roles.get(group, ())),
            scopes=frozenset(scope for scope in named if scope in SCOPES) or None,
            credential_id=f"{settings.name}:{token_id or sha256(token.encode()).hexdigest()}",
            expires=float(claims["exp"]) + CLOCK_SKEW_SECONDS,
        )

    def _tenant(self, claims: dict[str, Any]) -> str:
        if self.settings.tenant:
            return self.settings.tenant
        tenant = _claim(claims, self.settings.tenant_claim)
        if not isinstance(tenant, str) or tenant not in self.settings.tenants:
            raise Unauthenticated(
                f"the token is not valid: its {self.settings.tenant_claim} names no tenant of this issuer"
            )
        return tenant


class Issuers:
    """All configured identity providers, by the issuer their tokens name."""

    def __init__(self, settings: Sequence[IssuerSettings]) -> None:
        self._http = new_client()
        self._by_issuer = {each.issuer: Issuer(each, self._http) for each in settings}

    @property
    def all(self) -> Sequence[Issuer]:
        return list(self._by_issuer.values())

    def of(self, issuer: str) -> Issuer | None:
        return self._by_issuer.get(issuer)

    def named(self, name: str) -> Issuer | None:
        return next((issuer for issuer in self.all if issuer.settings.name == name), None)

    async def exchange(self, url: str, form: dict[str, str], auth: httpx.Auth | None) -> httpx.Response:
        """Post a form to a provider's endpoint."""
        return await self._http.post(url, data=form, auth=auth or httpx.USE_CLIENT_DEFAULT)

    async def close(self) -> None:
        await self._http.aclose()


def _signature(token: str) -> tuple[str, str]:
    """The algorithm and key a token claims to be signed with."""
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise Unauthenticated(f"the token is not valid: {error}") from None
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise Unauthenticated(
            f"the token is not valid: signed by {algorithm}; allowed: {', '.join(ALGORITHMS)}"
        )
    if not isinstance(key_id, str):
        raise Unauthenticated("the token is not valid: it names no key (kid)")
    return algorithm, key_id


def _claim(claims: dict[str, Any], name: str) -> Any:
    """A claim by its name, or by a path into nested ones: `realm_access.roles`."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str) and text]


def _subject(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= 256 or ":" in value[:4]:
        raise Unauthenticated("the token is not valid: it does not say who bears it (see subject_claim)")
    return value
