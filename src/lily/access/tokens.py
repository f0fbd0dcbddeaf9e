"""Bearer tokens this installation signs for itself: JWT, HS256 and nothing else."""

from __future__ import annotations

import re
import time
from functools import lru_cache
from uuid import uuid4

import jwt

from lily.access.principals import Principal
from lily.domain.errors import Unauthenticated

ISSUER = "lily"
AUDIENCE = "lily"
ALGORITHM = "HS256"
#: The tenants the pipeline knows; an event of any other would end as a dead letter.
TENANT_NAME = re.compile(r"[A-Za-z0-9_.-]{1,63}")
_CLAIMS = ["exp", "nbf", "iat", "iss", "aud", "sub", "jti", "tenant", "role"]
_CLOCK_SKEW_SECONDS = 30


def mint_token(secret: str, tenant_id: str, role: str, subject: str, ttl_seconds: int) -> str:
    """A token that lets `subject` act in `tenant_id` with `role` for that long."""
    now = int(time.time())
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": subject,
        "tenant": tenant_id,
        "role": role,
        "iat": now,
        "nbf": now,
        "exp": now + ttl_seconds,
        "jti": str(uuid4()),
    }
    return jwt.encode(claims, secret, algorithm=ALGORITHM)


def verify_token(secret: str, token: str) -> Principal:
    """The principal a token speaks for; `Unauthenticated` when it is not ours, not whole, or not of now."""
    tenant, subject, role, expires = _verified(secret, token)
    if expires + _CLOCK_SKEW_SECONDS <= time.time():
        raise Unauthenticated("the token has expired; ask for a new one")
    return Principal(tenant, subject, frozenset({role}))


# Checking a signature and parsing JSON takes 30 µs, so a token in use is remembered; its expiry is not.
@lru_cache(maxsize=4096)
def _verified(secret: str, token: str) -> tuple[str, str, str, float]:
    try:
        claims = jwt.decode(
            token,
            secret,
            algorithms=[ALGORITHM],
            audience=AUDIENCE,
            issuer=ISSUER,
            leeway=_CLOCK_SKEW_SECONDS,
            options={"require": _CLAIMS, "strict_aud": True},
        )
    except jwt.ExpiredSignatureError:
        raise Unauthenticated("the token has expired; ask for a new one") from None
    except (jwt.PyJWTError, ValueError) as error:
        raise Unauthenticated(f"the token is not valid: {error}") from None
    return _names(claims)


def _names(claims: dict[str, object]) -> tuple[str, str, str, float]:
    names = [claims[claim] for claim in ("tenant", "sub", "role")]
    if not all(isinstance(name, str) and name and name.isprintable() for name in names):
        raise Unauthenticated("the token is not valid: tenant, sub and role must be printable text")
    if not TENANT_NAME.fullmatch(str(names[0])):
        raise Unauthenticated("the token is not valid: a tenant is 1 to 63 letters, digits, '_', '.' or '-'")
    return str(names[0]), str(names[1]), str(names[2]), float(str(claims["exp"]))
