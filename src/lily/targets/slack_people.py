"""Whom Slack means: the address of a person, asked of Slack by a bot and remembered for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from urllib.parse import urlencode

from pydantic_core import from_json

from lily.domain.connectors import SECRET, Connector
from lily.targets.egress import Egress, EgressFailed, EgressRefused
from lily.targets.slack import API

#: Slack waits three seconds for an answer in all.
_ASK_SECONDS = 1.5
_KNOWN_SECONDS = 600.0
_MOST_KNOWN = 10_000


class SlackPeople:
    def __init__(self, egress: Egress) -> None:
        self._egress = egress
        self._known: dict[tuple[str, str], tuple[str, float]] = {}

    async def email_of(self, connector: Connector, secrets: Mapping[str, str], user_id: str) -> str:
        """The address of a confirmed person of the workspace; '' when Slack does not tell in time."""
        key = (connector.connector_id, user_id)
        email, until = self._known.get(key, ("", 0.0))
        if time.monotonic() < until:
            return email
        token = secrets.get(SECRET, "")
        if not token.startswith("xox"):
            return ""
        email = await self._ask(str(connector.config.get("api_url") or API), token, user_id)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[key] = (email, time.monotonic() + _KNOWN_SECONDS)
        return email

    async def _ask(self, api: str, token: str, user_id: str) -> str:
        url = f"{api.rstrip('/')}/users.info?{urlencode({'user': user_id})}"
        client = self._egress.client(1)
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                answer = await client.request("GET", url, {"authorization": f"Bearer {token}"})
            user = from_json(answer.body)["user"]
            is_foreign = user.get("is_stranger") or user.get("is_email_confirmed") is False
            if user.get("deleted") or user.get("is_bot") or is_foreign:
                return ""
            return str(user["profile"].get("email") or "")
        except (EgressFailed, EgressRefused, TimeoutError, ValueError, KeyError, TypeError):
            return ""
        finally:
            await client.close()
