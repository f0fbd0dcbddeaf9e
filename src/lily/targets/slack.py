"""Slack, by incoming webhook or as a bot; a bot keeps a message current and tells the rest in its thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from pydantic_core import from_json, to_json

from lily.domain.connectors import SECRET, ConnectorType
from lily.domain.deliveries import Outcome, Receipt, Shipment
from lily.domain.errors import InvalidInput
from lily.targets.egress import EgressClient, EgressFailed, EgressRefused, check_url
from lily.targets.frame import Opening, Target, TargetType
from lily.targets.slack_blocks import blocks_of, escape, fallback
from lily.targets.webhooks import retry_after

API = "https://slack.com/api"
CONNECTIONS = 4
#: Later this may be mended: the message waits. Everything else Slack says no to stays refused.
_PASSING = frozenset(
    {
        "ratelimited",
        "rate_limited",
        "fatal_error",
        "internal_error",
        "service_unavailable",
        "request_timeout",
        "rollup_error",
        "team_added_to_org",
        "invalid_auth",
        "not_authed",
        "token_expired",
        "missing_scope",
    }
)
_GONE = frozenset({"account_inactive", "token_revoked", "no_service", "no_active_hooks", "no_team"})
#: The message is not there any more, or cannot be changed: what is new is said anew.
_LOST = frozenset({"message_not_found", "cant_update_message", "edit_window_closed", "thread_not_found"})
_EVENT = "lily_delivery"


class SlackWebhook:
    """An incoming webhook: each message stands for itself."""

    keeps_groups = False

    def __init__(self, url: str, client: EgressClient, *, with_button: bool) -> None:
        self._url = url
        self._client = client
        self._with_button = with_button

    async def send(self, shipment: Shipment) -> Receipt:
        payload = _payload(shipment, with_button=self._with_button)
        rendered = to_json(payload).decode()
        said = await _post(self._client, self._url, {}, payload)
        if said.ok:
            return Receipt(Outcome.DELIVERED, rendered, said.status)
        return _refusal(said, rendered)

    async def close(self) -> None:
        await self._client.close()


class SlackBot:
    """A bot's token: the first message of a group is posted, and the newest is shown in its place; each step
    of an incident is told in its thread as well."""

    keeps_groups = True

    def __init__(self, api: str, token: str, channel: str, client: EgressClient) -> None:
        self._api = api.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}"}
        self._channel = channel
        self._client = client
        self.with_button = False

    async def send(self, shipment: Shipment) -> Receipt:
        channel = str(shipment.options.get("channel") or self._channel)
        payload = _payload(shipment, with_button=self.with_button)
        payload["metadata"] = {"event_type": _EVENT, "event_payload": {"id": str(shipment.delivery_id)}}
        work = _Posting(shipment, channel, payload, to_json(payload).decode())
        if not channel:
            return Receipt(Outcome.REFUSED, work.rendered, detail="neither connector nor rule name a channel")
        place = shipment.place
        if place and place.get("asked") == channel:
            return await self._follow(work, place)
        return await self._open(work)

    async def close(self) -> None:
        await self._client.close()

    async def _open(self, work: _Posting) -> Receipt:
        if work.shipment.is_uncertain:
            found = await self._find(work.channel, None, work.shipment)
            if found:
                return work.delivered(_place(work, work.channel, found))
        said = await self._call("chat.postMessage", work.payload | {"channel": work.channel})
        if not said.ok:
            return _refusal(said, work.rendered)
        channel, ts = str(said.answer.get("channel") or work.channel), str(said.answer.get("ts") or "")
        return work.delivered(_place(work, channel, ts))

    async def _follow(self, work: _Posting, place: Mapping[str, Any]) -> Receipt:
        """Show the newest state in the group's message, and what happened in its thread."""
        shipment = work.shipment
        channel, ts = str(place["channel"]), str(place["ts"])
        is_newer = shipment.told_at >= datetime.fromisoformat(str(place["shown_at"]))
        if is_newer:
            said = await self._call("chat.update", work.payload | {"channel": channel, "ts": ts})
            if not said.ok:
                return await self._open(work) if said.error in _LOST else _refusal(said, work.rendered)
        is_told = shipment.is_uncertain and await self._find(channel, ts, shipment)
        if shipment.message.incident_id and not is_told:
            reply = {"channel": channel, "thread_ts": ts, **_step(work)}
            said = await self._call("chat.postMessage", reply)
            if not said.ok and said.error not in _LOST:
                return _refusal(said, work.rendered)
        return work.delivered(_place(work, channel, ts) if is_newer else dict(place))

    async def _find(self, channel: str, thread: str | None, shipment: Shipment) -> str:
        """The `ts` of what an attempt has posted of which no answer came; '' when Slack cannot tell."""
        asked = {
            "channel": channel,
            "oldest": f"{shipment.first_attempt.timestamp() - 60:.6f}",
            "include_all_metadata": "true",
            "limit": "200",
        }
        method = "conversations.history" if thread is None else "conversations.replies"
        if thread is not None:
            asked["ts"] = thread
        said = await _ask(self._client, f"{self._api}/{method}?{urlencode(asked)}", self._headers)
        messages = said.answer.get("messages") if said.ok else []
        for message in messages if isinstance(messages, list) else []:
            if _is_of(message, shipment.delivery_id):
                return str(message.get("ts") or "")
        return ""

    async def _call(self, method: str, payload: Mapping[str, Any]) -> _Said:
        return await _post(self._client, f"{self._api}/{method}", self._headers, payload)


@dataclass(frozen=True, slots=True)
class _Posting:
    shipment: Shipment
    channel: str
    payload: dict[str, Any]
    rendered: str

    def delivered(self, place: Mapping[str, Any]) -> Receipt:
        return Receipt(Outcome.DELIVERED, self.rendered, 200, place=place)


class _Said(NamedTuple):
    """What Slack answered; `error` is its word for what is wrong."""

    ok: bool
    status: int | None
    error: str
    answer: Mapping[str, Any]
    retry_after: float | None = None
    is_certain: bool = True


def _payload(shipment: Shipment, *, with_button: bool) -> dict[str, Any]:
    message = shipment.message
    return {
        "text": fallback(message),
        "blocks": blocks_of(message, shipment.told_at, with_button=with_button),
        "unfurl_links": False,
        "unfurl_media": False,
    }


def _step(work: _Posting) -> Mapping[str, Any]:
    """In the thread: one line about what happened to the incident."""
    message = work.shipment.message
    step = f"{message.change.partition('.')[2] or message.change}: {message.text or message.title}"
    return {
        "text": escape(step, 3000),
        "parse": "none",
        "mrkdwn": False,
        "metadata": work.payload["metadata"],
    }


def _place(work: _Posting, channel: str, ts: str) -> dict[str, Any]:
    return {
        "asked": work.channel,
        "channel": channel,
        "ts": ts,
        "shown_at": work.shipment.told_at.isoformat(),
    }


def _is_of(message: Any, delivery_id: UUID) -> bool:
    metadata = message.get("metadata") if isinstance(message, dict) else None
    payload = metadata.get("event_payload") if isinstance(metadata, dict) else None
    return isinstance(payload, dict) and payload.get("id") == str(delivery_id)


async def _post(
    client: EgressClient, url: str, headers: Mapping[str, str], payload: Mapping[str, Any]
) -> _Said:
    headers = {**headers, "content-type": "application/json; charset=utf-8"}
    return await _said(client, "POST", url, headers, to_json(dict(payload)))


async def _ask(client: EgressClient, url: str, headers: Mapping[str, str]) -> _Said:
    return await _said(client, "GET", url, headers, b"")


async def _said(
    client: EgressClient, method: str, url: str, headers: Mapping[str, str], content: bytes
) -> _Said:
    try:
        answer = await client.request(method, url, headers, content)
    except EgressRefused as error:
        return _Said(False, None, error.message, {})
    except EgressFailed as error:
        return _Said(False, None, error.message, {}, is_certain=error.is_certain)
    text = answer.body.decode(errors="replace").strip()
    if not text.startswith("{"):  # an incoming webhook answers in words
        word = text[:100]
        return _Said(answer.status == 200, answer.status, word, {}, retry_after(answer.headers))
    try:
        document = from_json(answer.body)
    except ValueError:
        document = {}
    ok = answer.status == 200 and document.get("ok") is True
    wrong = "" if ok else str(document.get("error") or f"HTTP {answer.status}")
    return _Said(ok, answer.status, wrong, document, retry_after(answer.headers))


def _refusal(said: _Said, rendered: str) -> Receipt:
    status = said.status
    outcome = Outcome.REFUSED
    if status is None or status == 429 or status >= 500 or said.error in _PASSING:
        outcome = Outcome.FAILED
    elif said.error in _GONE or status == 410:
        outcome = Outcome.GONE
    detail = f"Slack: {said.error or f'HTTP {status}'}"
    return Receipt(outcome, rendered, status, detail, said.is_certain, said.retry_after)


def _check(config: Mapping[str, Any]) -> None:
    if unknown := sorted(set(config) - {"channel", "api_url", "people", "identity"}):
        raise InvalidInput(
            f"/config: slack has no setting {unknown[0]!r}; it has: channel, api_url, people, identity"
        )
    people = config.get("people", {})
    if not isinstance(people, dict) or not all(isinstance(name, str) for name in people.values()):
        raise InvalidInput("/config/people: it must map Slack's ids of users to Lily's names of them")
    try:
        check_url(str(config.get("api_url") or API))
    except EgressRefused as error:
        raise InvalidInput(f"/config/api_url: {error.message}") from None


def _open(opening: Opening) -> Target:
    """By its secret: the address of an incoming webhook, or a bot's token."""
    secret, config = opening.secrets[SECRET], opening.connector.config
    client = opening.egress.client(CONNECTIONS)
    can_answer = "signing_secret" in opening.secrets
    if secret.startswith(("https://", "http://")):
        return SlackWebhook(secret, client, with_button=can_answer)
    bot = SlackBot(str(config.get("api_url") or API), secret, str(config.get("channel") or ""), client)
    bot.with_button = can_answer
    return bot


def _check_secrets(secrets: Mapping[str, str]) -> None:
    for name, secret in secrets.items():
        if not secret.isascii() or not secret.isprintable() or " " in secret:
            raise InvalidInput(f"/secret/{name}: it is in one line, without spaces, as Slack shows it")
    secret = secrets.get(SECRET, "")
    if "://" in secret:
        try:
            check_url(secret)
        except EgressRefused as error:
            raise InvalidInput(f"/secret/{SECRET}: {error.message}") from None


TARGET = TargetType(
    ConnectorType(
        "slack", {SECRET: True, "signing_secret": False}, _check, frozenset({"api_url"}), _check_secrets
    ),
    _open,
)
