"""Any system that sends JSON: a declarative mapping says what it means, a header where it is from."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any

from lily.domain.connectors import SECRET, ConnectorType
from lily.domain.incidents import Step
from lily.ingest.webhooks import grafana
from lily.ingest.webhooks.mappings import Mapping_, read_mapping
from lily.ingest.webhooks.sources import (
    Config,
    Delivery,
    Secrets,
    WebhookSource,
    check_keys,
    check_naming,
    same,
    wrong,
)

#: Mappings that come with Lily, by name.
SHIPPED = {"grafana": grafana.MAPPING}
_CONFIG = ("mapping", "auth", "data_source", "assets")
_AUTH = ("kind", "header", "prefix", "timestamp_header")
_KINDS = ("bearer", "hmac-sha256")
_TOLERANCE_SECONDS = 300


def is_authentic(delivery: Delivery, config: Config, secrets: Secrets) -> bool:
    """`bearer`: the secret itself in `Authorization`. `hmac-sha256`: a signature of the body in a header, of
    timestamp and body when the timestamp's header is configured; one older than five minutes is refused."""
    auth, secret = config.get("auth") or {}, secrets[SECRET]
    if auth.get("kind", "bearer") == "bearer":
        return same(delivery.headers.get("authorization", ""), f"Bearer {secret}")
    given = delivery.headers.get(auth["header"].lower(), "").removeprefix(auth.get("prefix", ""))
    signed = delivery.body
    if "timestamp_header" in auth:
        stamp = delivery.headers.get(auth["timestamp_header"].lower(), "")
        if not stamp.isdecimal() or abs(int(stamp[:15]) - delivery.at.timestamp()) > _TOLERANCE_SECONDS:
            return False
        signed = stamp.encode() + b":" + delivery.body
    return bool(given) and same(given, hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest())


def parse(payload: dict[str, Any], config: Config) -> Sequence[Step]:
    return mapping_of(config).steps(payload, config)


def mapping_of(config: Config) -> Mapping_:
    written = config.get("mapping")
    if isinstance(written, str):
        if written not in SHIPPED:
            raise wrong("mapping", f"there is no mapping {written[:64]!r}; shipped: {', '.join(SHIPPED)}")
        written = SHIPPED[written]
    return read_mapping(written)


def check_config(config: Config) -> None:
    check_keys(config, _CONFIG)
    check_naming(config)
    mapping_of(config)
    auth = config.get("auth", {})
    if not isinstance(auth, dict) or not all(isinstance(value, str) for value in auth.values()):
        raise wrong("auth", f"must be an object with {', '.join(_AUTH)}")
    if unknown := [name for name in auth if name not in _AUTH]:
        raise wrong(f"auth/{unknown[0]}", f"is not known here; known: {', '.join(_AUTH)}")
    kind = auth.get("kind", "bearer")
    if kind not in _KINDS:
        raise wrong("auth/kind", f"{kind[:64]!r} is none of {', '.join(_KINDS)}")
    if kind == "hmac-sha256" and not auth.get("header"):
        raise wrong("auth/header", "must name the header with the signature")


SOURCE = WebhookSource(
    type=ConnectorType("webhook-in", {SECRET: True}, check_config, destinations=frozenset()),
    is_authentic=is_authentic,
    parse=parse,
)
