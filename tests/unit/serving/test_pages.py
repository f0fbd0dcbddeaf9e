"""A page token leads on only with the question it was given for."""

from __future__ import annotations

import pytest

from lily.access.requests import MalformedRequest
from lily.serving.rest.pages import PageTokens, page_size

TOKENS = PageTokens("secret")
QUESTION = ("history", "acme", "orders")


def test_a_token_says_where_the_next_page_starts() -> None:
    assert TOKENS.read(TOKENS.issue((3, 17), QUESTION), QUESTION) == [3, 17]


@pytest.mark.parametrize(
    "question",
    [("history", "acme", "other"), ("history", "globex", "orders"), ("history", "acme/orders", "")],
)
def test_a_token_is_refused_for_another_question(question: tuple[str, ...]) -> None:
    with pytest.raises(MalformedRequest):
        TOKENS.read(TOKENS.issue((3, 17), QUESTION), question)


@pytest.mark.parametrize("token", ["x", "AAAA", "é", "=" * 40, "A" * 4000, "%00"])
def test_a_made_up_token_is_refused(token: str) -> None:
    with pytest.raises(MalformedRequest):
        TOKENS.read(token, QUESTION)


def test_a_changed_token_is_refused() -> None:
    token = TOKENS.issue((3, 17), QUESTION)
    for position in range(len(token) - 1):
        changed = token[:position] + ("A" if token[position] != "A" else "B") + token[position + 1 :]
        with pytest.raises(MalformedRequest):
            TOKENS.read(changed, QUESTION)


def test_another_installations_token_is_refused() -> None:
    with pytest.raises(MalformedRequest):
        PageTokens("other").read(TOKENS.issue((3, 17), QUESTION), QUESTION)


def test_page_sizes_follow_aip_158() -> None:
    assert [page_size(n) for n in (0, 1, 1000, 1001, 10**9)] == [50, 1, 1000, 1000, 1000]
    with pytest.raises(MalformedRequest):
        page_size(-1)
