"""Patches: fields that are mentioned change, and metadata is merged into the version it was read at."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from fastapi import Request

from lily.domain.assets import Outcome
from lily.domain.errors import VersionConflict
from lily.ingest.assertions import Draft, draft_assertion
from lily.ingest.merge_patches import merge_patch
from lily.ingest.recorder import Receipt, Waiting
from lily.ingest.rest.writing import Write, Writer, expected_version

Fields = dict[str, Any]

_ATTEMPTS = 3


async def record_patch(writer: Writer, request: Request, write: Write, fields: Fields) -> Receipt:
    """Record a merge patch of the asset `fields["asset_id"]`, which must exist.

    A patch of metadata waits even when the caller would rather not: whether another write came between, so
    that it must be merged again, is known only afterwards.
    """
    if fields.get("metadata") is None:
        return await _record_once(writer, request, write, fields)
    write = replace(write, waiting=Waiting(write.waiting.seconds or writer.wait_seconds, must_see=True))
    for attempt in range(_ATTEMPTS):
        receipt = await _record_once(writer, request, _attempted(write, attempt), dict(fields))
        refused = receipt.settlement and receipt.settlement.outcome == Outcome.REFUSED
        if not refused or "if-match" in request.headers:
            return receipt
    raise VersionConflict(f"the asset changed {_ATTEMPTS} times while it was patched; try again")


async def _record_once(writer: Writer, request: Request, write: Write, fields: Fields) -> Receipt:
    if earlier := await writer.recorder.earlier(write.keyed):
        return earlier
    draft = await _draft_patch(writer, request, write, fields)
    return await writer.recorder.record(write.submission([draft]))


async def _draft_patch(writer: Writer, request: Request, write: Write, fields: Fields) -> Draft:
    current = await writer.current(write, str(fields["asset_id"]))
    expected = expected_version(request, current)
    if fields.get("metadata") is not None:
        fields["metadata"] = merge_patch(json.loads(current.document)["metadata"], fields["metadata"])
        expected = current.version
    await writer.guard.require_change(write.call, current, fields)
    return draft_assertion(fields, write.arrival, current.asset_type, expected)


def _attempted(write: Write, attempt: int) -> Write:
    """The same write once more, under an event id of its own."""
    if attempt == 0 or write.keyed is None:
        return write
    return replace(write, keyed=replace(write.keyed, key=f"{write.keyed.key}\x1e{attempt}"))
