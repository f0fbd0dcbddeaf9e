"""The databases to be enforced, as connectors of the type `postgres` name them, and how they are reached."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from lily.domain.connectors import SAFE_AUTH, SECRET, Connector
from lily.repositories.postgres.queries import load
from lily.targets.enforcement.connections import CHANNEL, Connection, set_up
from lily.targets.enforcement.preparation import Options, Preparation
from lily.targets.enforcement.workshop import Workshop

TYPE = "postgres"
_CONNECT_SECONDS = 5
_CONTROL = load("enforcement_control.sql")

#: `EgressRefused` unless Lily may connect to this host and port.
Reaches = Callable[[str, int], str]


def plainly(host: str, _port: int) -> str:
    """The address of a host, whatever it is."""
    return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])


@dataclass(frozen=True, slots=True)
class Access:
    """All it takes to work on one database."""

    tenant_id: str
    connector_id: str
    #: The name of its assets' source.
    source: str
    config: Mapping[str, Any]
    password: str
    salt: str

    @property
    def key(self) -> tuple[str, str]:
        return self.tenant_id, self.connector_id

    @property
    def database(self) -> str:
        return str(self.config.get("database", ""))

    @property
    def options(self) -> Options:
        return Options(self.salt, deny_unknown=self.config.get("deny_unknown") is True)


def is_wanted(connector: Connector) -> bool:
    """Unless its config says `"enforce": false`."""
    return connector.config.get("enforce", True) is not False


def is_enforced(connector: Connector) -> bool:
    """Unless its config says `"enforce": false`, or it is disabled."""
    return connector.type == TYPE and is_wanted(connector) and not connector.is_disabled


def access_of(connector: Connector, secrets: Mapping[str, str], salt: str) -> Access:
    return Access(
        tenant_id=connector.tenant_id,
        connector_id=connector.connector_id,
        source=connector.name,
        config=connector.config,
        password=secrets.get(SECRET, ""),
        salt=salt,
    )


def connect(access: Access, reach: Reaches = plainly) -> Connection:
    """A session of the connector's user, to an address that was judged."""
    config = access.config
    host, port = str(config["host"]), int(config.get("port", 5432))
    connection: Connection = psycopg.connect(
        host=host,
        hostaddr=reach(host, port),
        port=port,
        dbname=access.database,
        user=str(config["user"]),
        password=access.password,
        sslmode=str(config.get("sslmode", "prefer")),
        require_auth=str(config.get("require_auth", SAFE_AUTH)),
        connect_timeout=_CONNECT_SECONDS,
        application_name="lily-enforcement",
        client_encoding="UTF8",
    )
    return set_up(connection)


class Target:
    """One database, with the sole right to work on it while this is open."""

    def __init__(self, access: Access, reach: Reaches = plainly) -> None:
        self.access = access
        with ExitStack() as opened:
            self.connection = opened.enter_context(closing(connect(access, reach)))
            self.preparation = Preparation(self.connection, access.options)
            self.workshop = Workshop(self.connection, access.options)
            self.preparation.furnish()
            self._claim = opened.enter_context(closing(connect(access, reach)))
            _lock(self._claim)
            #: A connection of its own: what it tells wakes the process, which must not be on the way of work.
            self.ears = opened.enter_context(closing(connect(access, reach)))
            self.ears.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
            self._opened = opened.pop_all()

    def drop(self) -> list[str]:
        """Leave nothing of Lily in the database, not even what is locked; only closing is left to do. Returns
        what stays, in words."""
        self._claim.close()
        return self.preparation.drop()

    def heard(self) -> bool:
        """Whether somebody else has changed something since this was asked last."""
        return bool([*self.ears.notifies(timeout=0)])

    def close(self) -> None:
        self._opened.close()


def _lock(claim: Connection) -> None:
    """Keep other processes away for as long as this connection lasts; nobody else can take the lock."""
    claim.execute(_CONTROL["last_long"])
    claim.execute("BEGIN")
    try:
        claim.execute(_CONTROL["lock_workplace"])
    except psycopg.errors.LockNotAvailable:
        raise psycopg.OperationalError("another process works on this database") from None
