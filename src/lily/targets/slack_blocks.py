"""Messages as Slack shows them: blocks within Slack's limits, in which everything foreign stays text."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from lily.domain.messages import Message

Block = dict[str, Any]

ACKNOWLEDGE = "lily.acknowledge"
SNOOZE = "lily.snooze"
#: Of an incident in one of these states there is nothing left to acknowledge.
_SETTLED = frozenset({"acknowledged", "resolved", "no_action_needed", "expected", "false_positive", "fixed"})
_MARKS = {
    "sev-1": "🔴",
    "critical": "🔴",
    "sev-2": "🟠",
    "high": "🟠",
    "sev-3": "🟡",
    "medium": "🟡",
    "sev-4": "🔵",
}
_MOST_HEADER = 150
_MOST_TEXT = 2800
_MOST_FIELDS = 10
# Slack allows 3,000 and 2,000 for a field, but some 13,000 for all of a message.
_MOST_FIELD = 400
_MOST_CONTEXT = 900
_MOST_URL = 3000
_MOST_VALUE = 2000
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_VALUE = re.compile(r"[\w.:/-]{1,2000}", re.ASCII)
_BREAKS = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]+")


def blocks_of(message: Message, told_at: datetime, *, with_button: bool) -> list[Block]:
    """The card: what happened to which asset, why it is told here, and what can be done."""
    blocks: list[Block] = [{"type": "header", "text": _plain(_headline(message), _MOST_HEADER)}]
    if message.text.strip():
        blocks.append({"type": "section", "text": _marked(escape(message.text, _MOST_TEXT))})
    if message.fields:
        shown = message.fields[:_MOST_FIELDS]
        blocks.append({"type": "section", "fields": [_field(label, value) for label, value in shown]})
    told = f"{told_at:%Y-%m-%d %H:%M:%S} UTC · {message.change}"
    if message.event_id:
        told += f" · event {message.event_id}"
    if message.count > 1:
        told += f" · {message.count} changes of one cause"
    context = [escape(line(each), _MOST_CONTEXT) for each in (message.reason, told) if each]
    blocks.append({"type": "context", "elements": [_marked(each) for each in context]})
    if buttons := _buttons(message, with_button=with_button):
        blocks.append({"type": "actions", "elements": buttons})
    return blocks


def fallback(message: Message) -> str:
    """What notifications and readers without blocks show."""
    return escape(line(_headline(message)), _MOST_TEXT) or "Lily"


def escape(text: str, most: int) -> str:
    """Text in which nothing means anything to Slack, cut to fit without cutting an escape in two."""
    clean = _CONTROL.sub(" ", text)
    shown: list[str] = []
    room = most - 1
    for character in clean:
        escaped = _ESCAPES.get(character, character)
        room -= len(escaped)
        if room < 0:
            return "".join(shown) + "…"
        shown.append(escaped)
    return "".join(shown)


def line(text: str) -> str:
    """Text in one line: a name cannot look like two."""
    return _BREAKS.sub(" ", text).strip()


def _headline(message: Message) -> str:
    settled = message.state in _SETTLED
    mark = "✅" if settled else _MARKS.get(message.severity.lower(), "🔔")
    return f"{mark} {message.title}"


def _plain(text: str, most: int) -> Block:
    # Plain text knows no escapes: the brackets are replaced by others that look alike.
    shown = line(text).replace("<", "‹").replace(">", "›")
    cut = shown if len(shown) <= most else shown[: most - 1] + "…"
    return {"type": "plain_text", "text": cut or "Lily", "emoji": False}


def _marked(text: str) -> Block:
    # Verbatim: names of people and channels in it are not looked up.
    return {"type": "mrkdwn", "text": text or " ", "verbatim": True}


def _field(label: str, value: str) -> Block:
    return _marked(f"*{escape(line(label), 60)}*\n{escape(line(value), _MOST_FIELD) or '–'}")


def _buttons(message: Message, *, with_button: bool) -> list[Block]:
    buttons: list[Block] = []
    if message.link.startswith(("https://", "http://")) and len(message.link) <= _MOST_URL:
        buttons.append(
            {
                "type": "button",
                "action_id": "lily.open",
                "text": _plain("Open", 75),
                "url": message.link,
            }
        )
    if with_button and message.incident_id and message.state not in _SETTLED:
        buttons.append(
            {
                "type": "button",
                "action_id": ACKNOWLEDGE,
                "style": "primary",
                "text": _plain("Acknowledge", 75),
                "value": message.incident_id[:_MOST_VALUE],
            }
        )
    if with_button and _VALUE.fullmatch(message.group_key) and message.state not in _SETTLED:
        buttons.append(
            {
                "type": "button",
                "action_id": SNOOZE,
                "text": _plain("Snooze 1 h", 75),
                "value": message.group_key,
            }
        )
    return buttons
