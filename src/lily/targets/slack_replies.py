"""Answers to somebody who pressed a button: Slack shows them to that person, and to nobody else."""

from __future__ import annotations

import structlog
from pydantic_core import to_json

from lily.targets.egress import Egress, EgressFailed, EgressRefused, check_url
from lily.targets.slack_blocks import escape

_MOST_TEXT = 3000

_log = structlog.get_logger(__name__)


class SlackReplies:
    def __init__(self, egress: Egress) -> None:
        self._egress = egress

    async def say(self, url: str, text: str) -> None:
        """Post it where Slack said, once: who was not told presses again."""
        body = {
            "response_type": "ephemeral",
            "replace_original": False,
            "text": escape(text, _MOST_TEXT),
        }
        client = self._egress.client(1)
        try:
            check_url(url)
            headers = {"content-type": "application/json; charset=utf-8"}
            await client.request("POST", url, headers, to_json(body))
        except (EgressFailed, EgressRefused) as error:
            _log.warning("slack_not_answered", error=error.message)
        finally:
            await client.close()
