"""What Lily keeps in a target database: the schema `lily_protection`, which must be its own; the guard."""

from __future__ import annotations

from lily.domain.errors import LilyError
from lily.repositories.postgres.queries import load
from lily.targets.enforcement.connections import Connection, fetch

_CONTROL = load("enforcement_control.sql")
#: A statement that was said, and the one that undoes it.
Said = tuple[str, str]
NO_GUARD = "not a superuser: changes by others are repaired at the next check, not at once"


class SomebodyElses(LilyError):
    """Something in the database has Lily's name and another owner: what it does is not Lily's doing."""

    code = "target_refused"


class Control:
    """On one connection. Whoever else could have made a function here would have it called by Lily."""

    def __init__(self, connection: Connection, said: list[Said]) -> None:
        self._connection = connection
        self._said = said
        self._is_renewed = False

    def is_there(self) -> bool:
        """`SomebodyElses` when any of it does not belong to the connection's user."""
        strangers = [text for (text,) in fetch(self._connection, _CONTROL["read_strangers"])]
        if strangers:
            user = self._connection.info.user
            raise SomebodyElses(
                f"{', '.join(strangers)}, not to {user}: nothing is enforced in this database; drop the "
                f"schema lily_protection if nobody knows it, or, if Lily worked here as another user, "
                f"REASSIGN OWNED BY that user TO {user}"
            )
        return bool(fetch(self._connection, _CONTROL["is_there"])[0][0])

    def furnish(self) -> None:
        """Make what is missing, with the functions of this release; from here on the work is Lily's own."""
        is_there = self.is_there()
        if is_there:
            fetch(self._connection, _CONTROL["begin_work"])
        else:
            self._say("create_schema", "drop_control")
            self._say("create_control", "drop_control")
        if is_there and not self._is_renewed:
            self._connection.execute(_CONTROL["create_control"])
        if not fetch(self._connection, _CONTROL["has_workplace"])[0][0]:
            self._connection.execute(_CONTROL["create_workplace"])
        fetch(self._connection, _CONTROL["begin_work"])

    def keep(self) -> None:
        """What was furnished is committed: it need not be said again on this connection."""
        self._is_renewed = True

    def post_guard(self) -> list[str]:
        """See to it that the guard is there and fires, whoever switched it off. Returns what prevents it."""
        enabled, may_guard = fetch(self._connection, _CONTROL["read_guard"])[0]
        if not may_guard:
            return [NO_GUARD]
        if enabled is None:
            self._say("create_guard", "drop_guard")
        if enabled != "A":
            self._say("enable_guard", "drop_guard")
        return []

    def _say(self, name: str, undo: str) -> None:
        self._connection.execute(_CONTROL[name])
        self._said.append((_CONTROL[name], _CONTROL[undo]))
