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
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def watch(self, groups: Mapping[int, str]) -> None:
        """Replace the list: process group → name of the signal that ends it, such as `KILL`."""
        assert self._shell.stdin is not None
        self._shell.stdin.write(" ".join(f"{signal}:{group}" for group, signal in groups.items()) + "\n")
        self._shell.stdin.flush()

    def dismiss(self) -> None:
        """Nothing is left to guard."""
        self.watch({})
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait()
