"""Ends the children when the supervisor was killed and could not do it itself.

A shell waits at the end of a pipe that only the supervisor holds. Each line it reads is the list of process
groups alive now; when the pipe closes, it ends the last list. Works alike on Linux and macOS, and unlike a
parent-death signal also reaches grandchildren.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

SCRIPT = """
trap '' INT TERM HUP QUIT
groups=
while read -r line; do groups=$line; done
for group in $groups; do kill -s "${group%%:*}" -- "-${group#*:}" 2>/dev/null; done
"""


class Guardian:
    """Knows which process groups must not outlive this process."""

    def __init__(self) -> None:
        self._shell = _spawn()

    def watch(self, groups: Mapping[int, str]) -> None:
        """Replace the list: process group → name of the signal that ends it, such as `KILL`."""
        line = " ".join(f"{signal}:{group}" for group, signal in groups.items()) + "\n"
        try:
            self._tell(line)
        except BrokenPipeError:  # the guardian itself was killed
            self._bid_farewell()
            self._shell = _spawn()
            self._tell(line)

    def dismiss(self) -> None:
        """Nothing is left to guard."""
        self.watch({})
        self._bid_farewell()

    def _bid_farewell(self) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait()

    def _tell(self, line: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(line.encode())


def _spawn() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", SCRIPT],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
