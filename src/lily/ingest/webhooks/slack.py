"""What Slack sends when somebody presses a button, and how it proves that it is Slack."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

from lily.access.requests import MalformedRequest

#: The buttons of a message. The value of the first is an incident's id, of the second a group of messages.
ACKNOWLEDGE = "lily.acknowledge"
SNOOZE = "lily.snooze"
#: Older than this, a request may be somebody's recording.
MOST_AGE_SECONDS = 300
_VERSION = "v0"


@dataclass(frozen=True, slots=True)
class Press:
    """Who pressed what: Slack's id of the person, the button and its value; where to answer them alone.

    `action` is empty when it was a button that only opens a page.
    """

    user_id: str
    action: str
    value: str
    response_url: str


def is_slacks(body: bytes, headers: Mapping[str, str], signing_secret: str, now: float) -> bool:
    """Whether the request is signed with this secret, lately."""
    moment, signature = headers.get("x-slack-request-timestamp", ""), headers.get("x-slack-signature", "")
    is_moment = moment.isascii() and moment.isdecimal() and len(moment) <= 12
    if not is_moment or abs(now - int(moment)) > MOST_AGE_SECONDS:
        return False
    content = f"{_VERSION}:{moment}:".encode() + body
    expected = f"{_VERSION}={hmac.new(signing_secret.encode(), content, hashlib.sha256).hexdigest()}"
    return hmac.compare_digest(signature.encode(), expected.encode())


def read_press(body: bytes) -> Press:
    """What was pressed; `MalformedRequest` when it is not Slack's form."""
    try:
        [text] = parse_qs(body.decode(), max_num_fields=20)["payload"]
        payload = json.loads(text)
        user, actions = payload["user"], payload.get("actions") or []
        pressed = [(each["action_id"], str(each["value"])[:2000]) for each in actions if _is_ours(each)]
        action, value = pressed[0] if pressed else ("", "")
        return Press(str(user["id"])[:100], action, value, str(payload.get("response_url") or "")[:2000])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise MalformedRequest("the body is not what Slack sends when a button is pressed") from None


def _is_ours(action: dict[str, str]) -> bool:
    return action.get("action_id") in (ACKNOWLEDGE, SNOOZE)
