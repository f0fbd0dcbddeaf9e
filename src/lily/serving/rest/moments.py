"""Moments in questions: RFC 3339, understood also when a client forgot to escape the plus sign."""

from __future__ import annotations

from datetime import UTC, datetime

from lily.access.requests import MalformedRequest


def read_moment(parameter: str, text: str) -> datetime:
    """The moment in UTC; one without an offset is taken as UTC."""
    # A plus sign that was not escaped arrives as a space.
    try:
        moment = datetime.fromisoformat(text.strip().replace(" ", "+" if "T" in text.upper() else "T"))
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise MalformedRequest(
            f"{parameter} must be a time such as 2026-01-31T12:00:00Z, not {text[:64]!r}"
        ) from None
