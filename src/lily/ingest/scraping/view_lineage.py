"""Where the columns of a view come from: by its SQL, checked against what PostgreSQL knows it to use.

Lineage decides what is protected, so nothing is left out: a reference that is not understood stands for all
it could mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from lily.domain.errors import InvalidInput
from lily.domain.scraping import UNKNOWN, FoundEdge, FoundLineage
from lily.ingest.scraping.postgres_catalogs import Relation, names_of

#: A relation and the number of one of its columns; 0 when it is not known which columns are used.
Use = tuple[int, int]
_DIALECT = "postgres"


@dataclass(frozen=True, slots=True)
class View:
    """A view, its text, and what PostgreSQL knows it to use."""

    relation: Relation
    text: str
    used: Mapping[int, Relation]
    uses: Sequence[Use]

    def lineage(self) -> FoundLineage:
        names = [[each.schema, each.name, *each.columns.values()] for each in self._all()]
        basis = sha256("\x1f".join([self.text, *map(repr, names)]).encode()).hexdigest()
        return FoundLineage(self.relation.external_id, basis, self.edges)

    def edges(self) -> list[FoundEdge]:
        """The edges its SQL tells; all that are possible when it is not understood."""
        try:
            found = list(self._derived())
        except (InvalidInput, LookupError):
            found = list(self._possible())
        return list(dict.fromkeys(found))

    def _all(self) -> list[Relation]:
        return [self.relation, *(self.used[oid] for oid in sorted(self.used))]

    def _derived(self) -> Iterator[FoundEdge]:
        from lily.ingest.sql_lineage import derive_edges  # a tenth of a second that a scraper at rest saves

        by_name = dict(names_of(self._all()))
        if len(by_name) < len(self.used) + 1 or any(name.count(".") != 1 for name in by_name):
            raise LookupError("names that differ in case only, or have dots in them")
        target = f"{self.relation.schema}.{self.relation.name}".lower()
        schemas = {name: list(each.columns.values()) for name, each in by_name.items() if name != target}
        made = ".".join(f'"{each}"' for each in target.replace('"', '""').split("."))
        seen: set[str] = set()
        for edge in derive_edges(f"CREATE VIEW {made} AS {self.text}", _DIALECT, "", schemas):
            if not edge.is_column:
                yield FoundEdge(by_name[edge.source].external_id, self.relation.external_id)
                continue
            ends = [self.relation.external_id] if edge.is_indirect else _columns(edge.target, by_name)
            for end in ends:
                for source in _columns(edge.source, by_name):
                    seen.add(source)
                    yield FoundEdge(source, end, edge.is_indirect, edge.subtype)
        yield from self._overlooked(seen)

    def _overlooked(self, seen: set[str]) -> Iterator[FoundEdge]:
        """The columns used for something else than values and filters: to group, to sort, in a window."""
        for source in self._used_columns(whole=False):
            if source not in seen:
                yield FoundEdge(source, self.relation.external_id, is_indirect=True, subtype="USED")

    def _possible(self) -> Iterator[FoundEdge]:
        for each in self.used.values():
            yield FoundEdge(each.external_id, self.relation.external_id, subtype=UNKNOWN)
        for source in self._used_columns(whole=True):
            for name in self.relation.columns.values():
                yield FoundEdge(source, self.relation.column(name), subtype=UNKNOWN)

    def _used_columns(self, *, whole: bool) -> Iterator[str]:
        for oid, number in self.uses:
            relation = self.used.get(oid)
            if relation is None:
                continue
            if number in relation.columns:
                yield relation.column(relation.columns[number])
            elif whole:
                yield from map(relation.column, relation.columns.values())


def inherited(child: Relation, parents: Sequence[Relation]) -> FoundLineage:
    """That a partition, or a table that inherits, has the columns of another, and what protects them."""
    edges = [FoundEdge(parent.external_id, child.external_id) for parent in parents]
    own = set(child.columns.values())
    edges += [
        FoundEdge(parent.column(name), child.column(name))
        for parent in parents
        for name in parent.columns.values()
        if name in own
    ]
    basis = sha256("\x1f".join(f"{edge.source} {edge.target}" for edge in edges).encode()).hexdigest()
    return FoundLineage(child.external_id, basis, lambda: edges)


def generated(relation: Relation, number: int, sources: Sequence[int]) -> FoundLineage:
    """That a column is computed from others of its table: what protects one of them protects it."""
    target = relation.column(relation.columns[number])
    known = [relation.columns[each] for each in sources if each in relation.columns]
    edges = [FoundEdge(relation.column(name), target, subtype="TRANSFORMATION") for name in known]
    basis = sha256("\x1f".join(f"{edge.source} {edge.target}" for edge in edges).encode()).hexdigest()
    return FoundLineage(target, basis, lambda: edges)


def _columns(name: str, by_name: Mapping[str, Relation]) -> list[str]:
    """The column of this name in lower case; all columns of the table when it has none of that name."""
    table, _, wanted = name.rpartition(".")
    relation = by_name[table]
    found = [column for column in relation.columns.values() if column.lower() == wanted]
    return [relation.column(column) for column in found or relation.columns.values()]
