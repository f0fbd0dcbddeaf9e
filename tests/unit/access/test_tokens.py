"""Tokens let in whom we signed for, and nobody else."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import jwt
import pytest

from lily.access.tokens import COOKIE_AUDIENCE, OwnToken, mint_session_token, mint_token, verify_token
from lily.domain.errors import Unauthenticated

SECRET = "a secret of at least thirty-two bytes"


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    good = {
        "iss": "lily",
        "aud": "lily",
        "sub": "ada",
        "tenant": "acme",
        "role": "owner",
        "iat": now,
        "nbf": now,
        "exp": now + 60,
        "jti": "1",
    }
    return {name: value for name, value in (good | changes).items() if value is not None}


def session(session_id: str) -> OwnToken:
    return OwnToken("acme", "ada", "", time.time() + 60, session_id=session_id)


def test_a_minted_token_speaks_for_its_bearer() -> None:
    token = verify_token(SECRET, mint_token(SECRET, "acme", "viewer", "ada", 60))
    assert (token.tenant_id, token.subject, token.role, token.session_id) == ("acme", "ada", "viewer", None)


def test_a_session_token_names_its_session_and_no_role() -> None:
    session_id = str(uuid4())
    token = verify_token(SECRET, mint_session_token(SECRET, session(session_id)))
    assert (token.session_id, token.role) == (session_id, None)


def test_a_cookie_is_no_bearer_token_nor_the_other_way_round() -> None:
    cookie = mint_session_token(SECRET, session(str(uuid4())), COOKIE_AUDIENCE)
    verify_token(SECRET, cookie, COOKIE_AUDIENCE)
    with pytest.raises(Unauthenticated):
        verify_token(SECRET, cookie)
    with pytest.raises(Unauthenticated):
        verify_token(SECRET, mint_session_token(SECRET, session(str(uuid4()))), COOKIE_AUDIENCE)


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": 1_700_000_000},
        {"nbf": 4_000_000_000},
        {"iss": "somebody"},
        {"aud": "somebody"},
        {"aud": ["lily", "somebody"]},
        {"tenant": None},
        {"tenant": ""},
        {"tenant": 7},
        {"tenant": "a\x00b"},
        {"tenant": "no/slash"},
        {"role": None},
        {"sub": None},
        {"exp": None},
        {"jti": None},
        {"sid": "no session"},
        {"sid": ""},
    ],
    ids=str,
)
def test_a_token_with_a_wrong_or_missing_claim_is_refused(changes: dict[str, Any]) -> None:
    token = jwt.encode(claims(**changes), SECRET, algorithm="HS256")
    with pytest.raises(Unauthenticated):
        verify_token(SECRET, token)


def test_a_token_signed_with_another_key_is_refused() -> None:
    with pytest.raises(Unauthenticated):
        verify_token(SECRET, mint_token(SECRET + "!", "acme", "owner", "ada", 60))


@pytest.mark.parametrize("algorithm", ["none", "HS384", "HS512"])
def test_only_hs256_is_accepted(algorithm: str) -> None:
    key = "" if algorithm == "none" else SECRET * 2
    token = jwt.encode(claims(), key, algorithm=algorithm)
    with pytest.raises(Unauthenticated):
        verify_token(SECRET * 2, token)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "…", "e30.e30.e30"])
def test_rubbish_is_refused(token: str) -> None:
    with pytest.raises(Unauthenticated):
        verify_token(SECRET, token)
