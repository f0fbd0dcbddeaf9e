"""The kinds of sources there are: Lily's own, one file each, and those of outside packages."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, cast

from lily.domain.connectors import SAFE_AUTH
from lily.domain.errors import InvalidInput, LilyError, MisconfiguredError
from lily.domain.scraping import Found, Target

#: Outside packages register a `Scrape` here under the type of the connectors it reads.
PLUG_INS = "lily.ingest"
#: Reads everything there is: what contains before what is contained, lineage last. It runs in a thread, may
#: block, and is closed when nobody reads on.
Scrape = Callable[[Target], Generator[Found]]
SSL_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
AUTH_METHODS = ("password", "md5", "gss", "sspi", "scram-sha-256", "none")
#: By the type of connector; imported when the first is read.
_OWN: Mapping[str, str] = {"postgres": "lily.ingest.scraping.postgres"}


class SourceUnreachable(LilyError):
    """The source does not answer, or not in time; it is tried again."""

    code = "source_unreachable"
    retryable = True


class SourceRefused(LilyError):
    """The source does not let Lily in, or not like this; somebody must change the connector."""

    code = "source_refused"


def source_types() -> frozenset[str]:
    """The types of connectors that can be scraped."""
    return frozenset(_OWN) | plugged_in().keys()


@cache
def plugged_in() -> Mapping[str, Scrape]:
    """The sources of outside packages by type; what they register there for webhooks is no function."""
    found = {point.name: point.load() for point in entry_points(group=PLUG_INS) if point.name not in _OWN}
    return {name: scrape for name, scrape in found.items() if callable(scrape)}


def check_postgres(config: Mapping[str, Any]) -> None:
    """`InvalidInput` unless a PostgreSQL database can be found by this."""
    for name in ("host", "database", "user"):
        if not isinstance(config.get(name), str) or not config[name]:
            raise InvalidInput(f"/config/{name}: say which {name} it is, as a text")
    port = config.get("port", 5432)
    if not isinstance(port, int) or not 0 < port < 65536:
        raise InvalidInput("/config/port: a number from 1 to 65535")
    schemas = config.get("schemas")
    if schemas is not None and not (isinstance(schemas, list) and all(isinstance(s, str) for s in schemas)):
        raise InvalidInput("/config/schemas: a list of names; left out, all schemas are read")
    if config.get("sslmode", "prefer") not in SSL_MODES:
        raise InvalidInput(f"/config/sslmode: one of {', '.join(SSL_MODES)}")
    asked = str(config.get("require_auth", SAFE_AUTH)).split(",")
    if wrong := [each for each in asked if each.strip().removeprefix("!") not in AUTH_METHODS]:
        known = ", ".join(AUTH_METHODS)
        raise InvalidInput(
            f"/config/require_auth: {wrong[0][:64]!r} is none of {known}, of which several may be allowed,"
            " or forbidden with !"
        )


def open_source(connector_type: str) -> Scrape:
    """How connectors of this type are read; a type of Lily's own is never anybody else's."""
    if connector_type in _OWN:
        return cast(Scrape, import_module(_OWN[connector_type]).scrape)
    if connector_type in plugged_in():
        return plugged_in()[connector_type]
    known = ", ".join(sorted(source_types()))
    raise MisconfiguredError(
        f"no source reads connectors of the type {connector_type!r}; known: {known}. Install a package with "
        f"an entry point of that name in the group {PLUG_INS!r}"
    )
