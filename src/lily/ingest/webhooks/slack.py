"""What Slack sends when somebody presses a button, and how it proves that it is Slack."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

from lily.access.requests import MalformedRequest

#: The button of an incident's message; its value is the incident's id.
ACKNOWLEDGE = "lily.acknowledge"
#: Older than this, a request may be somebody's recording.
MOST_AGE_SECONDS = 300
_VERSION = "v0"


@dataclass(frozen=True, slots=True)
class Press:
    """Who pressed what: Slack's id and name of the person, and the incident to acknowledge, if any."""

    user_id: str
    user_name: str
    incident_id: str


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
        pressed = [str(each["value"]) for each in actions if each.get("action_id") == ACKNOWLEDGE]
        name = str(user.get("username") or user.get("name") or user["id"])
        return Press(str(user["id"])[:100], name[:100], pressed[0][:2000] if pressed else "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise MalformedRequest("the body is not what Slack sends when a button is pressed") from None
