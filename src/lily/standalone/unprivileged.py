"""Runs one command as an ordinary user when root asks: PostgreSQL refuses to run as root.

Called by file name, `python unprivileged.py COMMAND …`, so that it imports the standard library only. The
process keeps one capability, to pass through directories it may not read: the data directory, and often its
parents, are closed to everyone but root.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import sys

ACCOUNTS = ("postgres", "nobody")

CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
CAPABILITY_VERSION_3 = 0x20080522
PR_SET_SECUREBITS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 28, 47, 2
#: Capabilities survive the change of user, and access(2), which PostgreSQL asks, honours them.
SECBIT_NO_SETUID_FIXUP = 1 << 2


def account() -> pwd.struct_passwd:
    """The existing account that runs what root must not."""
    for name in ACCOUNTS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise SystemExit(f"none of the accounts {', '.join(ACCOUNTS)} exists; run Lily as an ordinary user")


def unprivileged(command: list[str]) -> list[str]:
    """The command, wrapped so that it does not run as root."""
    return [sys.executable, "-I", __file__, *command] if os.geteuid() == 0 else command


def drop_privileges() -> None:
    """Become the account; on Linux keep the right to search directories."""
    user = account()
    linux = sys.platform == "linux"
    libc = ctypes.CDLL(None, use_errno=True)
    if linux:
        libc.prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0)
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    # Containers often grant only the second, wider one.
    if linux and not any(_keep(libc, capability) for capability in (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE)):
        print("no capability to keep; the data directory's parents must be open to everyone", file=sys.stderr)


def _keep(libc: ctypes.CDLL, capability: int) -> bool:
    mask = 1 << capability
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0)  # effective, permitted, inheritable
    if libc.capset(header, data) != 0:
        return False
    return bool(libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) == 0)


if __name__ == "__main__":
    drop_privileges()
    os.execv(sys.argv[1], sys.argv[1:])
