"""How a request's headers and body are read, and what is refused there, whatever the request asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import UUID

from fastapi import Request

from lily.domain.errors import InvalidInput

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_WAIT_SECONDS = 30.0
JSON_TYPES = ("application/json",)

_WAIT = re.compile(r"\s*wait\s*=\s*\"?(\d{1,9})\"?\s*", re.IGNORECASE)
_ASYNC = re.compile(r"\s*respond-async\s*(;.*)?", re.IGNORECASE)
_NOT_IN_IDS = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_ENTITY_TAG = re.compile(r'\s*(W/)?"([^"]*)"\s*')


class MalformedRequest(InvalidInput):
    """The request cannot be read at all: its syntax is wrong."""

    code = "malformed_request"


class ContentTooLarge(InvalidInput):
    code = "content_too_large"


class UnsupportedMediaType(InvalidInput):
    code = "unsupported_media_type"


@dataclass(frozen=True, slots=True)
class Preference:
    """What the caller prefers (RFC 7240): an answer at once, or how long they are ready to wait."""

    respond_async: bool
    wait_seconds: float | None

    def seconds(self, default: float) -> float:
        return default if self.wait_seconds is None else min(self.wait_seconds, MAX_WAIT_SECONDS)


@dataclass(frozen=True, slots=True)
class ExpectedVersions:
    """The versions `If-Match` allows; None allows any version of an asset that exists."""

    versions: frozenset[int] | None

    def allow(self, version: int) -> bool:
        return self.versions is None or version in self.versions


def read_preference(request: Request) -> Preference:
    """Preferences are wishes: one that cannot be understood is ignored, as RFC 7240 asks."""
    parts = ",".join(request.headers.getlist("prefer")).split(",")
    waits = [match for part in parts if (match := _WAIT.fullmatch(part))]
    return Preference(
        respond_async=any(_ASYNC.fullmatch(part) for part in parts),
        wait_seconds=float(waits[0][1]) if waits else None,
    )


def read_event_id(request: Request, header: str) -> UUID | None:
    text = request.headers.get(header)
    if text is None:
        return None
    try:
        event_id = UUID(text.strip().strip('"'))
    except ValueError:
        event_id = UUID(int=0)
    if event_id.version not in (7, 8):
        raise MalformedRequest(
            f"{header} must be an event id as answered in Lily-Event-Id, not {text[:64]!r}"
        )
    return event_id


def read_expected_versions(request: Request) -> ExpectedVersions | None:
    """`If-Match`: `*`, or entity tags of which strong ones with a version count."""
    header = ",".join(request.headers.getlist("if-match"))
    if not header:
        return None
    if header.strip() == "*":
        return ExpectedVersions(None)
    tags = [_ENTITY_TAG.fullmatch(part) for part in header.split(",")]
    if None in tags:
        raise MalformedRequest(f'If-Match must be * or entity tags such as "3", not {header[:64]!r}')
    strong = {tag[2] for tag in tags if tag and not tag[1]}
    versions = (re.fullmatch(r"([0-9]{1,9})(\.[0-9a-f]{8})?", tag) for tag in strong)
    return ExpectedVersions(frozenset(int(version[1]) for version in versions if version))


def check_id(asset_id: str) -> str:
    """An id from a path: text that PostgreSQL can compare; `MalformedRequest` otherwise."""
    if _NOT_IN_IDS.search(asset_id):
        raise MalformedRequest("an id is UTF-8 text without control characters")
    return asset_id


def check_uuid(text: str, what: str) -> str:
    """An id from a path that is a UUID, as PostgreSQL spells it; `what` it is the id of."""
    try:
        return str(UUID(text))
    except ValueError:
        raise MalformedRequest(f"a {what}'s id is a UUID, not {text[:64]!r}") from None


async def read_body(
    request: Request, media_types: tuple[str, ...] = JSON_TYPES, most: int = MAX_BODY_BYTES
) -> bytes:
    """The whole body, at most 16 MB or so many bytes of one of these media types.

    Of a body that is too large nothing is kept, but up to 16 MB it is let come: who is cut off in the middle
    does not read the answer.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in media_types:
        raise UnsupportedMediaType(
            f"the Content-Type {media_type or '(none)'!r} is not understood here; "
            f"send {' or '.join(media_types)}"
        )
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared[:20]) > MAX_BODY_BYTES:
        raise _too_large(most)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise _too_large(most)
        if size <= most:
            chunks.append(chunk)
        else:
            chunks.clear()
    if size > most:
        raise _too_large(most)
    return b"".join(chunks)


def _too_large(most: int) -> ContentTooLarge:
    return ContentTooLarge(f"the body is larger than {most:,} bytes; send less at a time")
