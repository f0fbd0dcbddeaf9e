"""Loopback ports for the parts that nobody but Lily talks to."""

from __future__ import annotations

import random
import socket

LOOPBACK = "127.0.0.1"

#: Below what operating systems hand out for outgoing connections, so that a persisted port is still free
#: after a restart.
RANGE = range(20_000, 32_000)


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port nobody listens on, chosen at random so that parallel installations seldom meet."""
    return next(port for port in random.sample(RANGE, len(RANGE)) if is_free(port))
