"""What every writing route does around its event: key, arrival, waiting, and the answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import Response
from pydantic_core import to_json

from lily.access.assets import AssetGuard
from lily.access.calls import Call
from lily.access.decisions import Action
from lily.access.requests import MalformedRequest, Preference, check_id, read_expected_versions
from lily.domain.assets import Outcome
from lily.domain.errors import Forbidden, InvalidInput, NotFound, Unavailable, VersionConflict
from lily.ingest.assertions import Arrival, Draft
from lily.ingest.recorder import Receipt, Recorder, Submission, Waiting, accepted_but_unseen, request_hash
from lily.repositories.postgres.assets import StoredAsset
from lily.repositories.postgres.idempotency import KeyedRequest

ASSETS = "/lily/v1/metadata"
SOURCE = "/lily/v1"
_KEY = re.compile(r'"([\x20-\x21\x23-\x5b\x5d-\x7e]{1,255})"|([\x21\x23-\x7e]{1,255})')


@dataclass(frozen=True, slots=True)
class Write:
    """One writing request, as far as it is the same whatever it writes."""

    call: Call
    arrival: Arrival
    keyed: KeyedRequest | None
    waiting: Waiting

    def submission(self, drafts: list[Draft]) -> Submission:
        return Submission(self.arrival, drafts, self.waiting, self.keyed)


class Writer:
    """The parts a writing route works with."""

    def __init__(self, recorder: Recorder, guard: AssetGuard, wait_seconds: float) -> None:
        self.recorder = recorder
        self.guard = guard
        self.wait_seconds = wait_seconds

    def begin(self, request: Request, call: Call, body: bytes = b"") -> Write:
        """Read what the headers say about how to write."""
        principal = call.principal
        arrival = Arrival(principal.tenant_id, principal.subject, SOURCE, call.traceparent, datetime.now(UTC))
        return Write(call, arrival, _keyed_request(request, call, body), self._waiting(call.preference))

    def _waiting(self, preference: Preference) -> Waiting:
        """`respond-async` alone does not wait; with `wait` it is answered so after that time."""
        default = 0.0 if preference.respond_async else self.wait_seconds
        return Waiting(preference.seconds(default), must_see=not preference.respond_async)

    async def write_one(self, write: Write, draft: Draft) -> Response:
        """Record one event and answer with the asset as it is then."""
        return await self.answer(write, draft.asset_id, await self.recorder.record(write.submission([draft])))

    async def answer(self, write: Write, asset_id: str, receipt: Receipt) -> Response:
        if receipt.settlement is None:
            body = _receipt_body(asset_id, receipt)
            return _response(202, body, receipt, _location(asset_id) | ASYNC_APPLIED)
        created = receipt.settlement.outcome == Outcome.CREATED
        asset = await self.settled_asset(write, asset_id, receipt)
        headers = {"etag": etag(asset.version)} | (_location(asset_id) if created else {})
        shown = await self.guard.may(write.call, Action.READ, asset.traits)
        body = asset.document.encode() if shown else _receipt_body(asset_id, receipt)
        return _response(201 if created else 200, body, receipt, headers)

    async def settled_asset(self, write: Write, asset_id: str, receipt: Receipt) -> StoredAsset:
        """The asset after its event; raises what stopped the event."""
        raise_refusal(receipt)
        try:
            asset = await self.guard.assets.find(write.arrival.tenant_id, asset_id)
        except Unavailable as error:
            raise accepted_but_unseen(receipt.event_id, error) from error
        if asset is None:
            raise NotFound(f"the asset {asset_id!r} has been purged since", event_id=str(receipt.event_id))
        return asset

    async def current(self, write: Write, asset_id: str, action: Action = Action.WRITE) -> StoredAsset:
        """The asset as it is, when the caller may do this to it."""
        return await self.guard.find_for(write.call, action, check_id(asset_id))

    async def authorise(
        self, write: Write, drafts: Sequence[tuple[str, Mapping[str, Any]]]
    ) -> dict[int, Forbidden]:
        """The refusals among these writes (asset id and fields), by position."""
        return await self.guard.refusals(write.call, drafts)

    async def require_sight(self, write: Write, asset_ids: Sequence[str]) -> None:
        """Return when the caller may read these, whatever their credential is for.

        Taking a tag off, an opt-out, or an edge that goes or stops tags may lift what hides an asset.
        """
        principal = replace(write.call.principal, scopes=None)
        readable = await self.guard.readable(replace(write.call, principal=principal), list(asset_ids))
        if set(asset_ids) - readable:
            raise Forbidden("who may not read an asset may not lift what protects it")


ASYNC_APPLIED = {"preference-applied": "respond-async"}


def accepted_headers(receipt: Receipt) -> dict[str, str]:
    headers = {"lily-event-id": str(receipt.event_id)}
    return headers | ({"idempotent-replayed": "true"} if receipt.replayed else {})


def etag(version: int) -> str:
    return f'"{version}"'


def expected_version(request: Request, current: StoredAsset | None) -> int | None:
    """The version `If-Match` lets the event meet; raises at once when it can no longer be met."""
    expected = read_expected_versions(request)
    if expected is None:
        return None
    if current is None or not expected.allow(current.version):
        found = f"version {current.version}" if current else "no asset"
        raise VersionConflict(f"If-Match does not allow what is there ({found}); read it again, then decide")
    return None if expected.versions is None else current.version


def raise_first(refused: Mapping[int, Forbidden]) -> None:
    """Raise what refused the only write, if it was."""
    for refusal in refused.values():
        raise refusal


def raise_refusal(receipt: Receipt) -> None:
    """Raise what stopped the one event of this receipt, if something did."""
    settlement = receipt.settlement
    if settlement is None:
        return
    event_id = str(receipt.event_id)
    if settlement.dead:
        raise InvalidInput(f"{settlement.reason}: {settlement.detail}", event_id=event_id)
    if settlement.outcome == Outcome.REFUSED:
        raise VersionConflict(
            "the asset changed before this write arrived; read it again, then decide", event_id=event_id
        )


def _keyed_request(request: Request, call: Call, body: bytes) -> KeyedRequest | None:
    header = request.headers.get("idempotency-key")
    if header is None:
        return None
    match = _KEY.fullmatch(header.strip())
    if match is None:
        raise MalformedRequest("Idempotency-Key must be 1 to 255 printable ASCII characters, best in quotes")
    target = f"{request.url.path}?{request.url.query}"
    return KeyedRequest(
        call.tenant_id,
        call.principal.subject,
        match[1] or match[2],
        request_hash(request.method, target, body),
    )


def _receipt_body(asset_id: str, receipt: Receipt) -> bytes:
    return to_json({"asset_id": asset_id, "event_id": str(receipt.event_id)})


def _location(asset_id: str) -> dict[str, str]:
    return {"location": f"{ASSETS}/{quote(asset_id, safe='')}"}


def _response(status: int, body: bytes, receipt: Receipt, headers: dict[str, str]) -> Response:
    return Response(body, status, headers | accepted_headers(receipt), media_type="application/json")
