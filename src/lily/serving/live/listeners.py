"""Who opens a connection: the credential it came with, looked at again for as long as it lasts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit
from uuid import uuid4

from fastapi import WebSocket

from lily.access.credentials import Credential
from lily.access.notebooks import Notebook
from lily.access.origins import Origin, origin_of
from lily.domain.conditions import MAX_PURPOSE, Circumstances
from lily.domain.errors import LilyError, Unauthenticated
from lily.serving.live.closings import closing_of
from lily.serving.rest.acts import Acts

#: A page cannot set headers: it offers this protocol and, beside it, `bearer.<token>`.
PROTOCOL = "lily.v1"
_BEARER = "bearer."

_acts = Acts()


@dataclass(frozen=True)
class Listener:
    """Somebody at the other end; `verify` answers their credential, or says that it has ended."""

    verify: Callable[[], Awaitable[Credential]]
    origin: Origin
    purpose: str
    notebook: Notebook

    def circumstances(self) -> Circumstances:
        return Circumstances(datetime.now(UTC), self.origin.address, self.purpose)


async def authenticated_listener(socket: WebSocket) -> Listener | None:
    """Whoever opens the connection, which is accepted then; None when it was closed instead."""
    # What is noted about this connection is not shared with others, as the server's state is.
    socket.scope["state"] = dict(socket.scope.get("state") or {}) | {"trace_id": uuid4().hex}
    own_page, listed_page = _pages(socket)
    if not own_page and not listed_page:
        await socket.close()  # not accepted: a page of another site learns nothing
        return None
    offered = [each.strip() for each in socket.headers.get("sec-websocket-protocol", "").split(",")]
    await socket.accept(subprotocol=PROTOCOL if PROTOCOL in offered else None)
    try:
        verify = _verifier(socket, offered, may_use_cookie=own_page)
        credential = await verify()
    except LilyError as error:
        closing = closing_of(error)
        socket.state.refusal = closing.reason
        if isinstance(error, Unauthenticated):
            _acts.note_stranger(socket)
        await socket.close(closing.code, closing.fitted)
        return None
    origin = origin_of(socket)
    notebook = Notebook(socket.app.state.trail, credential.principal, origin)
    return Listener(verify, origin, socket.headers.get("lily-purpose", "")[:MAX_PURPOSE], notebook)


def _verifier(
    socket: WebSocket, offered: Sequence[str], *, may_use_cookie: bool
) -> Callable[[], Awaitable[Credential]]:
    """How to ask whether the credential is still good. A cookie counts from a page of our own alone."""
    authenticator, cookies = socket.app.state.authenticator, socket.app.state.cookies
    scheme, _, token = socket.headers.get("authorization", "").partition(" ")
    tokens = [each.removeprefix(_BEARER) for each in offered if each.startswith(_BEARER)]
    if scheme.lower() == "bearer" and token.strip():
        tokens = [token.strip()]
    cookie = socket.cookies.get(cookies.session_name)
    if tokens:
        return lambda: authenticator.bearer(tokens[0])
    if cookie is not None and may_use_cookie and "origin" in socket.headers:
        return lambda: authenticator.cookie(cookie)
    raise Unauthenticated("send Authorization: Bearer <token>, or the protocols lily.v1 and bearer.<token>")


def _pages(socket: WebSocket) -> tuple[bool, bool]:
    """Whether a page of our own opens this, and whether one of a listed origin does; no browser is both."""
    origin = socket.headers.get("origin")
    if origin is None:
        return True, True
    url, public = urlsplit(origin), urlsplit(socket.app.state.public_url)
    is_here = bool(url.netloc) and url.netloc == socket.headers.get("host")
    is_public = bool(public.netloc) and (url.scheme, url.netloc) == (public.scheme, public.netloc)
    return is_here or is_public, origin in socket.app.state.origins
