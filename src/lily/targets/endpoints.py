"""What an endpoint given as an address means: the connector that tells it, found again by its name."""

from __future__ import annotations

import base64
import secrets
from hashlib import sha256
from urllib.parse import urlsplit

from lily.domain.connectors import SECRET
from lily.domain.errors import InvalidInput
from lily.repositories.postgres.connectors import NewConnector
from lily.targets import slack, webhooks
from lily.targets.egress import EgressRefused, check_url

_SLACK = frozenset({"hooks.slack.com", "hooks.slack-gov.com"})
_KEY_BYTES = 32


def connector_of(url: str, actor: str) -> NewConnector:
    """The connector of this address, with a new secret for a webhook; `InvalidInput` unless Lily may send to
    it. The same address has the same name, in which nothing can be read: Slack's is a secret."""
    try:
        scheme = check_url(url)
    except EgressRefused as error:
        raise _wrong(error.message) from None
    if scheme != "https":
        raise _wrong("the address must be an https URL; register a connector for one in the house")
    kind = slack.TARGET if urlsplit(url).hostname in _SLACK else webhooks.TARGET
    name = f"{kind.name} {sha256(url.encode()).hexdigest()[:16]}"
    if kind is slack.TARGET:
        return NewConnector(kind.name, name, {}, {SECRET: url}, actor)
    key = f"whsec_{base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()}"
    return NewConnector(kind.name, name, {"url": url}, {SECRET: key}, actor)


def _wrong(detail: str) -> InvalidInput:
    return InvalidInput(f"/endpoint: {detail}", errors=[{"pointer": "/endpoint", "detail": detail}])
