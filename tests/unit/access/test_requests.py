"""Headers are read as their standards say."""

from __future__ import annotations

from uuid import UUID

import pytest
from fastapi import Request

from lily.access.requests import (
    ExpectedVersions,
    MalformedRequest,
    read_event_id,
    read_expected_versions,
    read_preference,
)
from lily.domain.event_ids import new_batch_id


def request(**headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return Request({"type": "http", "headers": raw})


@pytest.mark.parametrize(
    ("header", "respond_async", "seconds"),
    [
        ("respond-async", True, 10.0),
        ("Respond-Async", True, 10.0),
        ("wait=3", False, 3.0),
        ("respond-async, wait=2", True, 2.0),
        ("wait=999", False, 30.0),
        ('wait="5"', False, 5.0),
        ("wait=x", False, 10.0),
        ("return=minimal", False, 10.0),
        ("", False, 10.0),
    ],
)
def test_a_preference_is_read_or_ignored(header: str, respond_async: bool, seconds: float) -> None:
    preference = read_preference(request(prefer=header))
    assert (preference.respond_async, preference.seconds(10.0)) == (respond_async, seconds)


def test_an_event_id_is_read_with_or_without_quotes() -> None:
    event_id = new_batch_id(1, 3)
    assert read_event_id(request(lily_after=str(event_id)), "lily-after") == event_id
    assert read_event_id(request(lily_after=f'"{event_id}"'), "lily-after") == event_id


@pytest.mark.parametrize(
    "text", ["", "x", "5f3e7c1a-9b0d-4e62-8a41-c2d7f0b6e913", str(UUID(int=0)), "a" * 500]
)
def test_what_is_no_event_id_is_refused(text: str) -> None:
    with pytest.raises(MalformedRequest, match="lily-after"):
        read_event_id(request(lily_after=text), "lily-after")


@pytest.mark.parametrize(
    ("header", "versions"),
    [
        ("*", None),
        ('"3"', {3}),
        ('"3", "4"', {3, 4}),
        ('W/"3"', set()),
        ('"abc"', set()),
        ('"3", W/"4"', {3}),
        ('"٣"'.encode().decode("latin-1"), set()),
    ],
)
def test_if_match_allows_the_strong_tags_it_names(header: str, versions: set[int] | None) -> None:
    expected = None if versions is None else frozenset(versions)
    assert read_expected_versions(request(if_match=header)) == ExpectedVersions(expected)


@pytest.mark.parametrize("header", ["3", '"3', "3, 4", '"3" "4"'])
def test_a_malformed_if_match_is_refused(header: str) -> None:
    with pytest.raises(MalformedRequest, match="If-Match"):
        read_expected_versions(request(if_match=header))
