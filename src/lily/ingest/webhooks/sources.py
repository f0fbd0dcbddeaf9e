"""What a source of incidents is: how its webhooks prove where they come from, and what they say."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from lily.access.requests import MalformedRequest
from lily.domain.assets import derive_asset_id
from lily.domain.connectors import ConnectorType
from lily.domain.errors import InvalidInput
from lily.domain.incidents import MAX_NAME, MAX_NAMES, Step

Config = Mapping[str, Any]
Secrets = Mapping[str, str]


@dataclass(frozen=True)
class Delivery:
    """One webhook as it came, from which address."""

    body: bytes
    headers: Mapping[str, str]
    at: datetime
    address: str = ""

    @cached_property
    def payload(self) -> dict[str, Any]:
        """The body as an object, in the order and with the numbers it has; `MalformedRequest` otherwise."""
        try:
            content = json.loads(self.body)
            json.dumps(content, ensure_ascii=False, allow_nan=False).encode()  # else it could not be kept
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise MalformedRequest("the body of a webhook is a JSON object, in UTF-8 and of finite numbers")
        if b"\\u0000" in self.body:
            raise MalformedRequest("the body has the character U+0000, which cannot be kept")
        return content

    @cached_property
    def form(self) -> bytes:
        return form_of(self.payload)


def form_of(payload: Mapping[str, Any]) -> bytes:
    """The payload url-encoded, with Python's own spelling of values."""
    return urlencode(payload).encode()


def _body(delivery: Delivery) -> bytes:
    return delivery.body


@dataclass(frozen=True)
class WebhookSource:
    """A type of connector that reports incidents. `is_authentic` compares in constant time; `parse` says what
    a payload means, or raises `InvalidInput`.

    `signed` is what the signature vouches for. Deliveries in which it is the same are the same delivery: what
    is not signed, anybody could have changed.
    """

    type: ConnectorType
    is_authentic: Callable[[Delivery, Config, Secrets], bool]
    parse: Callable[[dict[str, Any], Config], Sequence[Step]]
    signed: Callable[[Delivery], bytes] = _body


def same(given: str, expected: str) -> bool:
    """Whether two signatures are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(given.encode(), expected.encode())


def named(names: Sequence[str | None], config: Config) -> dict[str, Any]:
    """The fields that lead to the asset with one of these names, the best one first.

    The connector's `assets` says by which id Lily knows what the source calls so; `data_source` is where the
    source finds its tables.
    """
    told = [name.strip() for name in dict.fromkeys(filter(None, names)) if 0 < len(name.strip()) <= MAX_NAME]
    mapping, data_source = config.get("assets") or {}, config.get("data_source")
    mapped = [mapping[name] for name in told if name in mapping]
    spelled = [spelling for name in told for spelling in (name, name.replace(":", "."))]
    derived = [derive_asset_id(data_source, name) for name in spelled] if data_source else []
    known = list(dict.fromkeys([*mapped, *derived, *spelled]))[:MAX_NAMES]
    if not known:
        return {}
    return {"names": known} | ({"data_source": data_source} if data_source else {})


def check_naming(config: Config) -> None:
    """`InvalidInput` unless `assets` and `data_source` are what `named` can use."""
    assets, data_source = config.get("assets", {}), config.get("data_source", "")
    if not isinstance(data_source, str) or len(data_source) > MAX_NAME:
        raise wrong("data_source", "must be the name of a data source")
    if not isinstance(assets, dict) or not all(
        isinstance(value, str) and 0 < len(value) <= MAX_NAME for value in assets.values()
    ):
        raise wrong("assets", "must be an object: what the source calls it → asset_id")


def check_keys(config: Config, known: Sequence[str]) -> None:
    """`InvalidInput` for what nobody would read."""
    for name in config:
        if name not in known:
            raise wrong(name, f"is not known here; known: {', '.join(known)}")


def wrong(name: str, detail: str) -> InvalidInput:
    pointer = f"/config/{name}"
    return InvalidInput(f"{pointer}: {detail}", errors=[{"pointer": pointer, "detail": detail}])


def unread(detail: str) -> InvalidInput:
    """The answer to an authentic payload that says nothing about an incident."""
    return InvalidInput(f"nothing here is about an incident: {detail}")
