"""A Slack of our own: incoming webhooks and the Web API over HTTP, which refuses what Slack refuses."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.blocks import Block

from kit.receivers import Received, Receiver, Reply

TOKEN = "xoxb-fake-0123456789"
SIGNING_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
HOOK = "/services/T0/B0/abc"
#: Where an answer to who pressed a button goes.
RESPONSES = "/actions/T0/1/x"
_MOST_BLOCKS = 50
_MOST_CHARACTERS = 13_000
#: What makes Slack call somebody or show a link in text with markup.
_MENTION = re.compile(r"<[!@#][^>]*>|<(https?|mailto)[^>]*>")


class FakeSlack:
    """`messages` are what people see, by channel; a message has its `ts`, and `thread_ts` in a thread."""

    def __init__(self) -> None:
        self.channels: dict[str, list[dict[str, Any]]] = {"C0DATA": [], "C0OTHER": []}
        self.mentions: list[str] = []
        self.whispers: list[str] = []  # what was said to who pressed alone
        self.emails: dict[str, str] = {}  # of the people of the workspace
        self.throttle: list[float] = []  # what the next answers ask for
        self.fail_next = 0
        self.lose_answers = 0  # take the message, but answer with an error
        self.removed = False
        self._ts = count(1)
        self._lock = threading.Lock()
        self._receiver = Receiver(self._answer)

    @property
    def hook_url(self) -> str:
        return f"{self._receiver.url}{HOOK}"

    @property
    def response_url(self) -> str:
        return f"{self._receiver.url}{RESPONSES}"

    @property
    def api_url(self) -> str:
        return f"{self._receiver.url}/api"

    @property
    def requests(self) -> list[Received]:
        return self._receiver.received

    def messages(self, channel: str = "C0DATA") -> list[dict[str, Any]]:
        with self._lock:
            return [dict(message) for message in self.channels[channel]]

    def roots(self, channel: str = "C0DATA") -> list[dict[str, Any]]:
        return [message for message in self.messages(channel) if "thread_ts" not in message]

    def close(self) -> None:
        self._receiver.close()

    def _answer(self, request: Received) -> Reply:
        with self._lock:
            if self.throttle:
                return Reply(429, b"rate_limited", {"retry-after": str(self.throttle.pop(0))})
            if self.fail_next:
                self.fail_next -= 1
                return Reply(503, b"service_unavailable")
            path = urlsplit(request.path).path
            if path == RESPONSES:
                return self._respond(request)
            reply = self._hook(request) if path == HOOK else self._api(path.removeprefix("/api/"), request)
            if self.lose_answers:
                self.lose_answers -= 1
                return Reply(504, b"")
            return reply

    def _hook(self, request: Received) -> Reply:
        if self.removed:
            return Reply(404, b"no_service")
        payload = _json(request)
        if payload is None:
            return Reply(400, b"invalid_payload")
        if problem := self._problem(payload):
            return Reply(400, problem.encode())
        self._show("C0DATA", payload)
        return Reply(200, b"ok")

    def _respond(self, request: Received) -> Reply:
        payload = _json(request)
        if payload is None or payload.get("response_type") != "ephemeral" or payload.get("replace_original"):
            return Reply(400, b"invalid_payload")
        self.whispers.append(str(payload["text"]))
        return Reply(200, b"ok")

    def _api(self, method: str, request: Received) -> Reply:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return _said(ok=False, error="invalid_auth")
        if self.removed:
            return _said(ok=False, error="account_inactive")
        asked = {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}
        payload = asked or _json(request)
        if payload is None:
            return _said(ok=False, error="invalid_json")
        if method == "users.info":
            return self._user(payload)
        if payload.get("channel") not in self.channels:
            return _said(ok=False, error="channel_not_found")
        handler = {
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "conversations.history": self._history,
            "conversations.replies": self._replies,
        }.get(method)
        return handler(payload) if handler else _said(ok=False, error="unknown_method")

    def _user(self, asked: dict[str, Any]) -> Reply:
        if asked.get("user") not in self.emails:
            return _said(ok=False, error="user_not_found")
        profile = {"email": self.emails[asked["user"]]}
        return _said(ok=True, user={"id": asked["user"], "is_email_confirmed": True, "profile": profile})

    def _post(self, payload: dict[str, Any]) -> Reply:
        if problem := self._problem(payload):
            return _said(ok=False, error=problem)
        if "thread_ts" in payload and not self._find(payload["channel"], payload["thread_ts"]):
            return _said(ok=False, error="thread_not_found")
        message = self._show(payload["channel"], payload)
        return _said(ok=True, channel=payload["channel"], ts=message["ts"], message=message)

    def _update(self, payload: dict[str, Any]) -> Reply:
        if problem := self._problem(payload):
            return _said(ok=False, error=problem)
        message = self._find(payload["channel"], payload.get("ts", ""))
        if message is None:
            return _said(ok=False, error="message_not_found")
        message |= {name: payload[name] for name in ("text", "blocks", "metadata") if name in payload}
        message["edits"] = message.get("edits", 0) + 1
        return _said(ok=True, channel=payload["channel"], ts=message["ts"])

    def _history(self, asked: dict[str, Any]) -> Reply:
        found = [m for m in self.channels[asked["channel"]] if "thread_ts" not in m]
        return _said(ok=True, messages=_since(found, asked), has_more=False)

    def _replies(self, asked: dict[str, Any]) -> Reply:
        ts = asked.get("ts")
        found = [m for m in self.channels[asked["channel"]] if ts in (m["ts"], m.get("thread_ts"))]
        return _said(ok=True, messages=_since(found, asked), has_more=False)

    def _find(self, channel: str, ts: str) -> dict[str, Any] | None:
        return next((m for m in self.channels[channel] if m["ts"] == ts), None)

    def _show(self, channel: str, payload: dict[str, Any]) -> dict[str, Any]:
        kept = ("text", "blocks", "thread_ts", "metadata")
        message: dict[str, Any] = {"ts": f"{time.time():.3f}{next(self._ts):03d}", "at": time.time()}
        message |= {name: payload[name] for name in kept if name in payload}
        self.channels[channel].append(message)
        self.mentions += [found for text in _marked(payload) for found in _MENTION.findall(text)]
        return message

    def _problem(self, payload: dict[str, Any]) -> str:
        """Slack's word for what is wrong with a message, if anything is."""
        blocks = payload.get("blocks") or []
        if not payload.get("text") and not blocks:
            return "no_text"
        if len(blocks) > _MOST_BLOCKS:
            return "invalid_blocks"
        if len(json.dumps(blocks, ensure_ascii=False)) > _MOST_CHARACTERS:
            return "msg_blocks_too_long"
        try:
            parsed = Block.parse_all(blocks)
            for block in parsed:
                block.to_dict()
        except (SlackObjectFormationError, TypeError, KeyError, AttributeError):
            return "invalid_blocks"
        texts = [text for block in blocks for text in _texts(block)]
        too_long = any(len(text["text"]) > 3000 or not text["text"] for text in texts)
        long_fields = any(len(f["text"]) > 2000 for block in blocks for f in block.get("fields", []))
        if len(parsed) != len(blocks) or too_long or long_fields or not all(map(_is_text, texts)):
            return "invalid_blocks"
        return ""


def interaction(
    action: str, value: str, user: str = "U0ADA", name: str = "ada", response_url: str = ""
) -> bytes:
    """The body Slack sends when somebody presses a button."""
    payload = {
        "type": "block_actions",
        "user": {"id": user, "username": name, "name": name, "team_id": "T0"},
        "actions": [{"type": "button", "action_id": action, "value": value, "action_ts": "1"}],
        "response_url": response_url,
    }
    return urlencode({"payload": json.dumps(payload)}).encode()


def signed(body: bytes, secret: str = SIGNING_SECRET, moment: float | None = None) -> dict[str, str]:
    """The headers Slack sends with it."""
    timestamp = str(int(time.time() if moment is None else moment))
    digest = hmac.new(secret.encode(), f"v0:{timestamp}:".encode() + body, hashlib.sha256).hexdigest()
    return {
        "x-slack-request-timestamp": timestamp,
        "x-slack-signature": f"v0={digest}",
        "content-type": "application/x-www-form-urlencoded",
    }


@contextmanager
def fake_slack() -> Iterator[FakeSlack]:
    running = FakeSlack()
    try:
        yield running
    finally:
        running.close()


def _json(request: Received) -> dict[str, Any] | None:
    if not request.headers.get("content-type", "").startswith("application/json"):
        return None
    try:
        payload = json.loads(request.body)
    except ValueError:
        return None
    return payload if isinstance(payload, dict) else None


def _said(**answer: Any) -> Reply:
    return Reply(200, json.dumps(answer).encode(), {"content-type": "application/json"})


def _since(messages: list[dict[str, Any]], asked: dict[str, Any]) -> list[dict[str, Any]]:
    found = [m for m in messages if float(m["ts"]) >= float(asked.get("oldest", 0))]
    if asked.get("include_all_metadata") != "true":
        found = [{name: value for name, value in m.items() if name != "metadata"} for m in found]
    return found[: int(asked.get("limit", 100))]


def _texts(block: dict[str, Any]) -> list[dict[str, Any]]:
    found = [block.get("text"), *block.get("fields", [])]
    for element in block.get("elements", []):
        found.append(
            element if "text" in element and isinstance(element["text"], str) else element.get("text")
        )
    return [text for text in found if text]


def _is_text(text: dict[str, Any]) -> bool:
    known = {"plain_text": {"type", "text", "emoji"}, "mrkdwn": {"type", "text", "verbatim"}}
    return text.get("type") in known and set(text) <= known[text["type"]]


def _marked(payload: dict[str, Any]) -> list[str]:
    """The texts in which Slack understands markup."""
    marked = [
        text["text"] for b in payload.get("blocks") or [] for text in _texts(b) if text["type"] == "mrkdwn"
    ]
    return [*marked, str(payload.get("text", ""))]
