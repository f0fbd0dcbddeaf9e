"""Generic webhooks by the Standard Webhooks specification 1.0.0: signed, and the same id on every attempt."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ssl
import tempfile
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from uuid import UUID

from pydantic_core import to_json

from lily.domain.connectors import SECRET, ConnectorType
from lily.domain.deliveries import Outcome, Receipt, Shipment
from lily.domain.errors import InvalidInput
from lily.targets.egress import EgressClient, EgressFailed, EgressRefused, check_url
from lily.targets.frame import Opening, TargetType

CONNECTIONS = 8
#: The specification asks for less than 20 KB; of a larger message all texts are cut, to the first that fits.
MOST_BYTES = 20_000
_CUTS = (4_000, 1_000, 250, 50)
_MOST_FIELDS = 16
_TEXTS = ("title", "text", "reason", "asset_name", "link")
_PREFIX = "whsec_"
#: The bytes of a key.
_FEWEST, _MOST = 24, 64
_SHOWN_ANSWER = 500


class WebhookTarget:
    """One receiver. With two secrets, both sign: the receiver may change over when it likes."""

    keeps_groups = False

    def __init__(self, url: str, secrets: Iterable[str], client: EgressClient) -> None:
        self._url = url
        self._keys = [signing_key(secret) for secret in secrets]
        self._client = client

    async def send(self, shipment: Shipment) -> Receipt:
        body = body_of(shipment)
        moment = int(time.time())
        headers = {
            "content-type": "application/json",
            "webhook-id": str(shipment.delivery_id),
            "webhook-timestamp": str(moment),
            "webhook-signature": sign(self._keys, shipment.delivery_id, moment, body),
        }
        rendered = body.decode()
        try:
            answer = await self._client.request("POST", self._url, headers, body)
        except EgressRefused as error:
            return Receipt(Outcome.FAILED, rendered, detail=error.message)
        except EgressFailed as error:
            return Receipt(Outcome.FAILED, rendered, detail=error.message, is_certain=error.is_certain)
        if 200 <= answer.status < 300:
            return Receipt(Outcome.DELIVERED, rendered, answer.status)
        detail = f"HTTP {answer.status}: {answer.body[:_SHOWN_ANSWER].decode(errors='replace')}"
        if answer.status == 410:
            return Receipt(Outcome.GONE, rendered, answer.status, detail)
        wait = retry_after(answer.headers)
        return Receipt(Outcome.FAILED, rendered, answer.status, detail, retry_after=wait)

    async def close(self) -> None:
        await self._client.close()


def body_of(shipment: Shipment) -> bytes:
    """What the receiver is told; `truncated` marks what was cut to fit."""
    body = to_json(_document(shipment, None))
    for most in _CUTS:
        if len(body) <= MOST_BYTES:
            break
        body = to_json(_document(shipment, most))
    return body


def _document(shipment: Shipment, most: int | None) -> dict[str, Any]:
    message = shipment.message
    document: dict[str, Any] = message.document()
    if most is not None:
        document |= {name: _cut(document[name], most) for name in _TEXTS}
        shown = message.fields[:_MOST_FIELDS]
        document["fields"] = [[_cut(label, most), _cut(value, most)] for label, value in shown]
        document["truncated"] = True
    named = {"tenant_id": shipment.queue.tenant_id, "subscription_id": shipment.subscription_id}
    return {"type": message.change, "timestamp": shipment.told_at.isoformat(), "data": named | document}


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def signing_key(secret: str) -> bytes:
    """The bytes of `whsec_…`; `InvalidInput` when it is not written so."""
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not secret.startswith(_PREFIX) or not _FEWEST <= len(key) <= _MOST:
        raise InvalidInput(f"a webhook's secret is {_PREFIX} and {_FEWEST} to {_MOST} random bytes in base64")
    return key


def sign(keys: Iterable[bytes], delivery_id: UUID, moment: int, body: bytes) -> str:
    """One signature per key, as `webhook-signature` lists them."""
    content = f"{delivery_id}.{moment}.".encode() + body
    digests = (hmac.new(key, content, hashlib.sha256).digest() for key in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds a target asks for, given as seconds or as a date (RFC 9110)."""
    text = headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def tls_context(authority: str, client_key: str) -> ssl.SSLContext | None:
    """TLS that trusts this authority instead of the machine's and shows this certificate with its key (both
    PEM); None without either, `InvalidInput` when one cannot be read."""
    if not authority and not client_key:
        return None
    try:
        context = ssl.create_default_context(cadata=authority or None)
        if client_key:
            _show(context, client_key)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidInput(f"ca and client_key must be PEM, client_key with its key: {error}") from None
    return context


def _show(context: ssl.SSLContext, client_key: str) -> None:
    # The library reads files only; this one is ours alone and gone at once.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(client_key)
        file.flush()
        context.load_cert_chain(file.name)


def _check(config: Mapping[str, Any]) -> None:
    if unknown := sorted(set(config) - {"url", "ca"}):
        raise InvalidInput(f"/config: a webhook has no setting {unknown[0]!r}; it has: url, ca")
    tls_context(str(config.get("ca") or ""), "")
    try:
        check_url(str(config.get("url") or ""))
    except EgressRefused as error:
        raise InvalidInput(f"/config/url: {error.message}") from None


def _check_secrets(secrets: Mapping[str, str]) -> None:
    for name in (SECRET, "previous_secret"):
        if name in secrets:
            signing_key(secrets[name])
    tls_context("", secrets.get("client_key", ""))


def _open(opening: Opening) -> WebhookTarget:
    secrets = opening.secrets
    tls = tls_context(str(opening.connector.config.get("ca") or ""), secrets.get("client_key", ""))
    signing = [secrets[name] for name in (SECRET, "previous_secret") if name in secrets]
    client = opening.egress.client(CONNECTIONS, tls)
    return WebhookTarget(str(opening.connector.config["url"]), signing, client)


TARGET = TargetType(
    ConnectorType(
        "webhook",
        {SECRET: True, "previous_secret": False, "client_key": False},
        _check,
        frozenset({"url", "ca"}),
        _check_secrets,
    ),
    _open,
)
