"""Bearer tokens this installation signs for itself: JWT, HS256 and nothing else.

An *operator token* says all about its bearer (`lily token`). A *session token* names a session; what its
bearer may do is known where the session is. In a cookie it is no bearer token, nor the other way round.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from uuid import UUID, uuid4

import jwt

from lily.domain.errors import Unauthenticated
from lily.domain.tenants import is_tenant_name

ISSUER = "lily"
AUDIENCE = "lily"
COOKIE_AUDIENCE = "lily-console"
ALGORITHM = "HS256"
CLOCK_SKEW_SECONDS = 30
_CLAIMS = ["exp", "nbf", "iat", "iss", "aud", "sub", "jti", "tenant"]


@dataclass(frozen=True, slots=True)
class OwnToken:
    """What a verified token of our own says. Either `role` or `session_id` is set."""

    tenant_id: str
    subject: str
    token_id: str
    expires: float
    role: str | None = None
    session_id: str | None = None


def mint_token(secret: str, tenant_id: str, role: str, subject: str, ttl_seconds: int) -> str:
    """A token that lets `subject` act in `tenant_id` with `role` for that long."""
    return _sign(secret, {"aud": AUDIENCE, "sub": subject, "tenant": tenant_id, "role": role}, ttl_seconds)


def mint_session_token(secret: str, session: OwnToken, audience: str = AUDIENCE) -> str:
    """A token for an open session, valid until `session.expires`."""
    names = {"aud": audience, "sub": session.subject, "tenant": session.tenant_id, "sid": session.session_id}
    return _sign(secret, names, int(session.expires - time.time()))


def verify_token(secret: str, token: str, audience: str = AUDIENCE) -> OwnToken:
    """What the token says; `Unauthenticated` when it is not ours, not whole, or not of now."""
    try:
        claims = jwt.decode(
            token,
            secret,
            algorithms=[ALGORITHM],
            audience=audience,
            issuer=ISSUER,
            leeway=CLOCK_SKEW_SECONDS,
            options={"require": _CLAIMS, "strict_aud": True},
        )
    except jwt.ExpiredSignatureError:
        raise Unauthenticated("the token has expired; ask for a new one") from None
    except (jwt.PyJWTError, ValueError) as error:
        raise Unauthenticated(f"the token is not valid: {error}") from None
    return _own_token(claims)


def _sign(secret: str, names: dict[str, str | None], seconds: int) -> str:
    now = int(time.time())
    times = {"iat": now, "nbf": now, "exp": now + seconds}
    return jwt.encode({"iss": ISSUER, **names, **times, "jti": str(uuid4())}, secret, algorithm=ALGORITHM)


def _own_token(claims: dict[str, object]) -> OwnToken:
    names = [claims.get(claim) for claim in ("tenant", "sub", "jti", "sid" if "sid" in claims else "role")]
    if not all(isinstance(name, str) and name and name.isprintable() for name in names):
        raise Unauthenticated("the token is not valid: tenant, sub, jti and role must be printable text")
    tenant_id, subject, token_id, bearing = (str(name) for name in names)
    check_tenant(tenant_id)
    expires = float(str(claims["exp"])) + CLOCK_SKEW_SECONDS
    if "sid" in claims:
        return OwnToken(tenant_id, subject, token_id, expires, session_id=_uuid(bearing))
    return OwnToken(tenant_id, subject, token_id, expires, role=bearing)


def check_tenant(tenant_id: str) -> None:
    """Refuse what is no tenant's name."""
    if not is_tenant_name(tenant_id):
        raise Unauthenticated("the token is not valid: a tenant is 1 to 63 letters, digits, '_', '.' or '-'")


def _uuid(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise Unauthenticated("the token is not valid: sid is not a session id") from None
