"""A reader of the gateway's WebSocket, with the client people use."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rest_kit import Gateway
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

PATH = "/ws/notifications"


def connected(
    api: Gateway, token: str, headers: Mapping[str, str] | None = None, **options: Any
) -> ClientConnection:
    """A connection that has said nothing yet; without a token, a stranger's."""
    url = str(api.client.base_url).replace("http", "ws", 1)
    mine = {"authorization": f"Bearer {token}"} if token else {}
    return connect(f"{url}{PATH}", additional_headers=mine | dict(headers or {}), proxy=None, **options)


@contextmanager
def listening(
    api: Gateway,
    token: str,
    cursor: str = "",
    filters: Mapping[str, Sequence[str]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Iterator[ClientConnection]:
    with connected(api, token, headers) as live:
        asked = {"type": "subscribe", "filters": filters or {}} | ({"cursor": cursor} if cursor else {})
        live.send(json.dumps(asked))
        yield live


def next_of(live: ClientConnection, seconds: float = 20) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(live.recv(seconds))
    return message


def subscribed(live: ClientConnection) -> str:
    """The cursor a subscription is answered with."""
    message = next_of(live)
    assert message["type"] == "subscribed"
    return str(message["cursor"])


def cursor_now(api: Gateway, token: str) -> str:
    with listening(api, token) as live:
        return subscribed(live)


def missed(
    api: Gateway,
    token: str,
    cursor: str,
    filters: Mapping[str, Sequence[str]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> list[str]:
    """The ids of what was told since the cursor; nothing for one who is not let in."""
    found: list[str] = []
    try:
        with listening(api, token, cursor, filters, headers) as live:
            while (message := next_of(live))["type"] != "caught_up":
                found += [message["metadata_id"]] if "metadata_id" in message else []
    except ConnectionClosed as closed:
        if closed.rcvd is None or closed.rcvd.code != 4403:
            raise
    return found
