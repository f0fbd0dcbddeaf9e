"""One connection, from subscribe to close: what was missed, then what happens, if the reader may see it."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

import structlog
from fastapi import WebSocket, WebSocketDisconnect

from lily.access.calls import forbidden
from lily.access.decision_points import Access
from lily.access.decisions import Action, Resource
from lily.access.principals import Principal
from lily.domain.changes import ChangeKind
from lily.domain.errors import LilyError
from lily.log.topics import Topic
from lily.serving.incidents import KIND
from lily.serving.live.catching_up import CatchingUp
from lily.serving.live.closings import Closing, Code, closing_of, expired, too_late, too_slow
from lily.serving.live.cursors import Cursors, Place
from lily.serving.live.hubs import Hub
from lily.serving.live.listeners import Listener
from lily.serving.live.messages import change_message
from lily.serving.live.readers import Offered, Reader
from lily.serving.live.subscriptions import Filters, Subscribe
from lily.serving.rest.bodies import parse_model
from lily.tenancy.open_cells import OpenCells

HEARTBEAT_SECONDS = 20.0
#: Who has said nothing by then gets everything; time enough for one who is far away to say more.
_SUBSCRIBE_SECONDS = 3.0
_SEND_SECONDS = 15.0
_MOST_CHARACTERS = 256 * 1024

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class LiveParts:
    """What connections are made of."""

    hub: Hub
    catching_up: CatchingUp
    cursors: Cursors
    cells: OpenCells


class Connection:
    def __init__(self, socket: WebSocket, listener: Listener, parts: LiveParts) -> None:
        self._socket = socket
        self._listener = listener
        self._parts = parts
        self._access: Access = socket.app.state.access
        self._turn = asyncio.Lock()
        self._receiving: asyncio.Task[str] | None = None
        self._expires = 0.0
        self._sent_at = 0.0

    async def run(self) -> None:
        """Serve until either side has enough; a close of ours has a code and says what to do."""
        try:
            await self._serve()
        except WebSocketDisconnect:
            self._log(Code.GOING_AWAY)
        except LilyError as error:
            await self._close(closing_of(error))
        except Closing as closing:
            await self._close(closing)
        finally:
            if self._receiving is not None:
                self._receiving.cancel()

    async def _serve(self) -> None:
        principal = await self._admitted()
        asked = await self._first()
        tenant_id, parts = principal.tenant_id, self._parts
        topic = Topic.METADATA_CHANGES.under((await parts.cells.of(tenant_id)).topic_prefix)
        start = parts.cursors.read(tenant_id, asked.cursor) if asked.cursor else None
        reader = Reader(tenant_id, asked.filters)
        async with parts.hub.joined(reader, topic) as here:
            await self._send({"type": "subscribed", "cursor": parts.cursors.issue(tenant_id, start or here)})
            listening = asyncio.create_task(self._listen(reader))
            try:
                if start is not None:
                    await self._catch_up(reader, start, here)
                while True:
                    await self._step(reader, topic)
            finally:
                listening.cancel()

    async def _admitted(self) -> Principal:
        """Whoever may read anything at all; `Forbidden` and `QuotaExceeded` otherwise."""
        principal = await self._verified()
        routes = self._socket.app.state.tenants
        routes.quotas.admit(await routes.of(principal.tenant_id), writing=False)
        await self._access.refresh(principal.tenant_id)
        possible = self._access.may_ever(principal, Action.READ)
        if not possible.allowed:
            what = ("route", self._socket.url.path)
            self._listener.notebook.write("read", what, False, ", ".join(possible.reasons))
            raise forbidden(principal, Action.READ, possible)
        return principal

    async def _first(self) -> Subscribe:
        """What the reader asks for; everything from now on when it asks for nothing."""
        self._receiving = asyncio.create_task(self._socket.receive_text())
        done, _ = await asyncio.wait({self._receiving}, timeout=_SUBSCRIBE_SECONDS)
        return _asked(await self._received()) if done else Subscribe(type="subscribe", cursor=None)

    async def _received(self) -> str:
        """The next message; one that is waited for already is not waited for twice, or it would be lost."""
        receiving = self._receiving or asyncio.create_task(self._socket.receive_text())
        self._receiving = receiving
        text = await receiving
        self._receiving = None
        return text[:_MOST_CHARACTERS]

    async def _catch_up(self, reader: Reader, start: Place, here: Place) -> None:
        tenant_id, catching_up = reader.tenant_id, self._parts.catching_up
        end = await catching_up.end(here)
        reader.served = {each: max(end.offsets[each], start.offsets.get(each, 0)) for each in end.offsets}
        async with aclosing(catching_up.between(tenant_id, start, end)) as batches:
            async for batch in batches:
                resources = await self._parts.hub.resources(tenant_id, [told.change for told in batch])
                for told in batch:
                    if offered := reader.wanted(told, resources):
                        await self._deliver(offered)
        await self._send({"type": "caught_up", "cursor": self._parts.cursors.issue(tenant_id, end)})

    async def _step(self, reader: Reader, topic: str) -> None:
        quiet = time.monotonic() - self._sent_at
        offered = await reader.next(min(max(HEARTBEAT_SECONDS - quiet, 0.05), self._expires - time.time()))
        if offered is not None:
            await self._deliver(offered)
            return
        await self._verified()
        is_due = time.monotonic() - self._sent_at >= HEARTBEAT_SECONDS
        if is_due and (place := self._parts.hub.resting_place(reader, topic)):
            await self._send(
                {"type": "heartbeat", "cursor": self._parts.cursors.issue(reader.tenant_id, place)}
            )

    async def _deliver(self, offered: Offered) -> None:
        """Send what the reader may see at this moment, by the rules in force at this moment."""
        principal, told = await self._verified(), offered.told
        if await self._may_see(principal, offered):
            cursor = self._parts.cursors.issue(principal.tenant_id, told.place)
            await self._send(change_message(told.change, offered.resource, cursor))

    async def _may_see(self, principal: Principal, offered: Offered) -> bool:
        await self._access.refresh(principal.tenant_id)
        known, resource = self._listener.circumstances(), offered.resource
        change = offered.told.change
        if change.kind is ChangeKind.INCIDENT and change.subject is None:  # what it names nobody can judge
            incident = Resource(principal.tenant_id, KIND, change.incident_id)
            return self._access.decide(principal, Action.READ, incident, known).allowed
        if resource is None:  # nothing is known of it: only for who may read everything
            same = self._access.decide_for_all(principal, Action.READ, known)
            return same is not None and same.allowed
        decision = self._access.decide(principal, Action.READ, resource, known)
        if decision.allowed:
            self._listener.notebook.fresh().note(Action.READ, resource, decision)
        return decision.allowed

    async def _verified(self) -> Principal:
        """The reader as their credential has them now; `Unauthenticated` once it has ended."""
        credential = await self._listener.verify()
        self._expires = credential.expires
        if self._expires <= time.time():
            raise expired()
        return credential.principal

    async def _listen(self, reader: Reader) -> None:
        """Take new filters and answer pings, until the reader goes or says something else."""
        try:
            while True:
                text = await self._received()
                if _is_ping(text):
                    await self._send({"type": "pong"})
                else:
                    reader.filters = _later(_asked(text))
        except Closing as closing:
            reader.end(closing)
        except (WebSocketDisconnect, RuntimeError):
            reader.end(Closing(Code.GOING_AWAY, "the reader has gone"))
        except LilyError as error:
            reader.end(closing_of(error))

    async def _send(self, message: dict[str, Any]) -> None:
        """A reader that does not take a message for a while is too slow."""
        text = json.dumps(message, separators=(",", ":"))
        try:
            async with self._turn:
                await asyncio.wait_for(self._socket.send_text(text), _SEND_SECONDS)
            self._sent_at = time.monotonic()
        except TimeoutError:
            raise too_slow() from None

    def _log(self, code: Code) -> None:
        tenant = self._listener.notebook.principal.tenant_id
        _log.info("live_closed", code=code.value, tenant=tenant, trace_id=self._listener.origin.trace_id)

    async def _close(self, closing: Closing) -> None:
        self._log(closing.code)
        with suppress(RuntimeError, WebSocketDisconnect, TimeoutError, OSError):  # it is closed already
            await asyncio.wait_for(self._socket.close(closing.code, closing.fitted), _SEND_SECONDS)


def _asked(text: str) -> Subscribe:
    return parse_model(Subscribe, text.encode())


def _later(asked: Subscribe) -> Filters:
    """The new filters. A cursor cannot be gone back to any more: taken silently, it would leave a gap."""
    if asked.cursor:
        raise too_late()
    return asked.filters


def _is_ping(text: str) -> bool:
    try:
        return bool(json.loads(text) == {"type": "ping"})
    except ValueError:
        return False
