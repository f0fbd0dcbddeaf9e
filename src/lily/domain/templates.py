"""Templates of messages: text with placeholders, which are looked up and never evaluated."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lily.domain.errors import InvalidInput

#: What a template can put in, and what it stands for.
PLACEHOLDERS = {
    "asset_id": "the asset's id",
    "asset_name": "its name",
    "asset_type": "its type",
    "asset_owner": "its owner",
    "data_source": "where it comes from",
    "tags": "the tags effective on it",
    "change": "what happened, such as `incident opened`",
    "changed": "the names of the fields that changed",
    "added_tags": "the tags that became effective",
    "removed_tags": "the tags that ceased to be",
    "actor": "who did it",
    "severity": "how bad it is",
    "incident_id": "the incident's id",
    "incident_title": "its title",
    "incident_status": "its status",
    "incident_url": "where its source shows it",
    "text": "what was written, for a notification triggered by hand",
    "event_time": "when it happened",
    "reason": "why this is told to you",
    "subscription": "the subscription's name",
}
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def check_template(text: str) -> str:
    """The text, when every brace in it belongs to a placeholder there is; `InvalidInput` otherwise."""
    unknown = [name for name in _PLACEHOLDER.findall(text) if name not in PLACEHOLDERS]
    if unknown:
        raise InvalidInput(f"unknown placeholder {{{unknown[0]}}}; there are: {', '.join(PLACEHOLDERS)}")
    if re.search(r"[{}]", _PLACEHOLDER.sub("", text)):
        raise InvalidInput("a brace belongs to a placeholder such as {asset_name}; leave out any other")
    return text


def render(template: str, values: Mapping[str, str]) -> str:
    """The text with its placeholders filled in, in one pass: what a value contains stays text."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], ""), template)
