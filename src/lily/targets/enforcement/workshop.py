"""Where the work on one target database is done: read its catalog, plan, and carry out, in transactions.

One process at a time holds the workshop's lock on the database. Whatever ends in the middle of a transaction
leaves no trace, and the next one reads everything anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, LiteralString

import psycopg
import structlog
from psycopg import sql

from lily.domain.external_ids import names_in, qualified
from lily.domain.protection import Protection
from lily.repositories.postgres.queries import load
from lily.targets.enforcement.connections import Connection, Row, fetch, read_roles, told
from lily.targets.enforcement.planner import Work, fingerprint, plan
from lily.targets.enforcement.preparation import Options
from lily.targets.enforcement.relations import UNKNOWN, Relation, Shield, read_relation, shields
from lily.targets.enforcement.rights import Rights, Statement
from lily.targets.enforcement.views import shadow_of

_CONTROL, _TARGET = load("enforcement_control.sql"), load("enforcement_target.sql")
#: By the external ids of columns.
Protections = Mapping[str, tuple[Protection, ...]]
#: The external ids of the relations that are classified, and of the columns that are assets.
Known = set[str] | None

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which relations to look at: those with these external ids, or all; and those protected already."""

    names: frozenset[str] | None = None
    with_protected: bool = False


EVERYTHING = Scope()


@dataclass(slots=True)
class Outcome:
    """What came of some work, by the relations' labels."""

    done: list[str] = field(default_factory=list)
    #: Denied where they should be masked, or masked where they should be open: somebody's transaction is
    #: in the way.
    waiting: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    #: Somebody changed their rights or names since they were looked at: to be planned again.
    disturbed: list[str] = field(default_factory=list)
    #: Of those that wait or failed, the ones whose columns were denied meanwhile.
    denied: list[str] = field(default_factory=list)

    @property
    def is_unfinished(self) -> bool:
        return bool(self.waiting or self.failed or self.disturbed)


class Disturbed(Exception):
    """A relation's rights or names are not what its work was planned for."""


class Unrevoked(psycopg.Error):
    """What was to take rights away left some."""


class Workshop:
    """On one connection, which it must have for itself."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._options = options
        self.database = connection.info.dbname

    def plan(self, protections: Protections, scope: Scope = EVERYTHING, known: Known = None) -> list[Work]:
        """The work on the relations in a scope and their relatives."""
        self._forget_gone(protections)
        roles = read_roles(self._connection)
        found = self._relations(scope)
        if self._options.deny_unknown and known is not None:
            numbers = [each.oid for each in found if self.external_id(each.label) in known]
            looked_at = None if scope == EVERYTHING else [each.oid for each in found]
            self._fetch(_CONTROL["set_known"], {"known": numbers, "found": looked_at})
        by_oid = shields(found, protections, self.database)
        planned = (plan(each, self._shield(each, by_oid[each.oid], known), roles) for each in found)
        return [work for work in planned if work is not None]

    def apply(self, works: Sequence[Work]) -> Outcome:
        """Carry out some work, all in one transaction if nothing is in the way, otherwise each in its own.

        Once this returns, what is done holds against everybody's statements, those of transactions included
        that changed the schema before and commit later: the guard looks at them when they do.
        """
        outcome = Outcome()
        if not works:
            return outcome
        try:
            with self._undisturbed():
                for work in works:
                    self._carry_out(work, work.statements)
            outcome.done += [work.relation.label for work in works]
        except (psycopg.Error, Disturbed) as error:
            if self._connection.closed:
                raise
            _log.info("work_is_split", error=str(error).strip())
            for work in works:
                self._apply_alone(work, outcome)
        return outcome

    def rehearse(self, works: Sequence[Work]) -> dict[str, str]:
        """Carry the work out and undo it: what would fail, by relation."""
        failed = {}
        with self._working(keep=False):
            for work in works:
                try:
                    with self._connection.transaction():
                        self._carry_out(work, work.statements)
                except psycopg.Error as error:
                    failed[work.relation.label] = told(error)
                except Disturbed as error:
                    failed[work.relation.label] = str(error)
        return failed

    def trace(self) -> str:
        """Another one whenever anybody has changed something about what is protected."""
        return str(self._fetch(_TARGET["read_trace"])[0][0])

    def external_id(self, label: str) -> str:
        """Of the relation with this label."""
        return f"{qualified(self.database)}.{label}"

    def text(self, statement: Statement) -> str:
        return statement.as_string(self._connection)

    def excepted(self) -> list[tuple[str, str]]:
        """Logins that read protected columns all the same, and why."""
        return [(name, why) for name, why in self._fetch(_TARGET["read_excepted"])]

    def release(self) -> Outcome:
        """Protect nothing any more; what is waiting or failed stays protected."""
        return self.apply(self.plan({}))

    def _apply_alone(self, work: Work, outcome: Outcome) -> None:
        label = work.relation.label
        try:
            with self._undisturbed():
                self._carry_out(work, work.statements)
            outcome.done.append(label)
        except Disturbed:
            outcome.disturbed.append(label)
        except psycopg.Error as error:
            if self._connection.closed:
                raise
            if self._deny_meanwhile(work, outcome) and isinstance(error, psycopg.errors.LockNotAvailable):
                outcome.waiting.append(label)
            else:
                outcome.failed.setdefault(label, told(error))

    def _deny_meanwhile(self, work: Work, outcome: Outcome) -> bool:
        try:
            if work.at_once:
                with self._working():
                    self._carry_out(work, work.at_once, is_whole=False)
                outcome.denied.append(work.relation.label)
        except psycopg.Error as error:
            if self._connection.closed:
                raise
            outcome.failed[work.relation.label] = told(error)
            return False
        except Disturbed:
            outcome.disturbed.append(work.relation.label)
        return True

    def _carry_out(self, work: Work, statements: Sequence[Statement], *, is_whole: bool = True) -> None:
        oid = work.relation.oid
        self._see_that_nobody_changed(work.relation)
        if statements:
            self._connection.execute(sql.SQL(";\n").join(statements))  # at once: they wait for no answer
        self._fetch(_CONTROL["forget_stripped"], {"relation": oid})
        if work.original is None:
            self._fetch(_CONTROL["forget_original"], {"relation": oid})
            return
        names = {str(column.number): work.relation.names(column) for column in work.relation.columns}
        values = {
            "relation": oid,
            "places": json.dumps(work.relation.places),
            "rights": json.dumps(work.original.document()),
            "shield": json.dumps({str(number): names[str(number)] for number in work.shield}),
            "fingerprint": fingerprint(work.wanted, self._seen(work.relation)) if is_whole else "",
        }
        rows = self._fetch(_CONTROL["put_original"], values)
        if not rows:
            raise Disturbed(f"{work.relation.label} is gone")
        if Rights.read(rows[0][0]).shows_more(work.readers, work.relation.owner):
            raise Unrevoked("rights to read are left that could not be taken away")

    def _see_that_nobody_changed(self, relation: Relation) -> None:
        """What was granted since the look would be taken for Lily's own, and shown for good; what has another
        name would be taken for something else."""
        rows = self._fetch(_TARGET["read_rights"], {"relation": relation.oid})
        if not rows:
            raise Disturbed(f"{relation.label} is gone")
        rights, stripped, schema, name, owner, columns = rows[0]
        seen = [Rights.read(rights), None if stripped is None else Rights.read(stripped)]
        if seen != [relation.rights, relation.stripped]:
            raise Disturbed(f"the rights on {relation.label} have changed since they were looked at")
        place = {int(number): called for number, called in columns.items()}
        if (schema, name, owner, place) != (
            relation.schema,
            relation.name,
            relation.owner,
            relation.place.columns,
        ):
            raise Disturbed(f"{relation.label} has been renamed or changed since it was looked at")

    def _seen(self, relation: Relation) -> str | None:
        values = {"schema": shadow_of(relation.schema), "name": relation.name}
        rows = self._fetch(_TARGET["read_view"], values)
        return rows[0][0] if rows else None

    @contextmanager
    def _working(self, *, keep: bool = True) -> Iterator[None]:
        with self._connection.transaction(force_rollback=not keep):
            self._fetch(_CONTROL["begin_work"])
            yield
            self._fetch(_CONTROL["end_work"])

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Nobody's change of the schema comes into force between the look and the commit."""
        with self._working():
            self._fetch(_CONTROL["pass_fence"])
            yield

    def _forget_gone(self, protections: Protections) -> None:
        """What was dropped, unless what takes its name must be protected, too."""
        if self._fetch(_CONTROL["has_gone"])[0][0]:
            places = {names[1:3] for names in map(names_in, protections) if names[0] == self.database}
            here = sorted(place for place in places if len(place) == 2)
            values = {"schemas": [schema for schema, _ in here], "names": [name for _, name in here]}
            self._fetch(_CONTROL["forget_gone"], values)

    def _shield(self, relation: Relation, shield: Shield, known: Known) -> Shield:
        if not self._options.deny_unknown or known is None:
            return shield
        label = self.external_id(relation.label)
        unknown = {
            column.number: (UNKNOWN,)
            for column in relation.columns
            if label not in known or f"{label}.{qualified(column.name)}" not in known
        }
        return {**shield, **unknown}

    def _relations(self, scope: Scope) -> list[Relation]:
        places = [names_in(name) for name in sorted(scope.names or ())]
        here = [place[1:] for place in places if len(place) == 3 and place[0] == self.database]
        values = {
            "is_whole": scope.names is None,
            "schemas": [schema for schema, _ in here],
            "names": [name for _, name in here],
            "with_protected": scope.with_protected,
        }
        return [read_relation(row) for row in self._fetch(_TARGET["read_relations"], values)]

    def _fetch(self, statement: LiteralString, values: Mapping[str, Any] | None = None) -> list[Row]:
        return fetch(self._connection, statement, values)
