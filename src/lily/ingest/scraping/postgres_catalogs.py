"""What a PostgreSQL catalog says, as assets: names, types, comments and grants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lily.domain.external_ids import qualified
from lily.domain.scraping import FoundAsset

Row = tuple[Any, ...]
_KINDS = {"p": "partitioned", "f": "foreign", "m": "materialized"}
_VIEWS = frozenset("vm")


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view; its columns by their number."""

    schema: str
    name: str
    external_id: str
    is_view: bool
    parents: tuple[str, ...]
    columns: dict[int, str] = field(default_factory=dict)

    def column(self, name: str) -> str:
        """The external id of one of its columns."""
        return f"{self.external_id}.{qualified(name)}"


class Catalog:
    """Turns the rows of the catalog's queries into assets, and remembers the relations by their oid."""

    def __init__(self, connector_id: str, roles: Iterable[Row]) -> None:
        self._connector_id = connector_id
        self._roles = {"0": "PUBLIC"} | dict(roles)
        self._database = ""
        self.relations: dict[int, Relation] = {}

    def database(self, row: Row) -> FoundAsset:
        name, owner, comment, acl = row
        self._database = qualified(name)
        return self._asset((self._database, "database", name, ()), {"owner": owner}, comment, acl)

    def schema(self, row: Row) -> FoundAsset:
        _, name, owner, comment, acl = row
        place = f"{self._database}.{qualified(name)}", "schema", name, (self._database,)
        return self._asset(place, {"owner": owner}, comment, acl)

    def relation(self, row: Row) -> FoundAsset:
        oid, schema, name, kind, owner, comment, acl, row_security = row
        within = f"{self._database}.{qualified(schema)}"
        parents = (self._database, within)
        found = Relation(schema, name, f"{within}.{qualified(name)}", kind in _VIEWS, parents)
        self.relations[oid] = found
        said: dict[str, Any] = {"owner": owner}
        if kind in _KINDS:
            said[_KINDS[kind]] = True
        if row_security:
            said["row_security"] = True
        place = found.external_id, "view" if found.is_view else "table", name, parents
        return self._asset(place, said, comment, acl)

    def column(self, row: Row) -> FoundAsset | None:
        """None for a column of something that came into being after the relations were read."""
        oid, name, data_type, number, not_null, in_key, comment, acl = row
        relation = self.relations.get(oid)
        if relation is None:
            return None
        relation.columns[number] = name
        said = {"data_type": data_type, "position": number, "nullable": not not_null}
        if in_key:
            said["primary_key"] = True
        place = relation.column(name), "column", name, (*relation.parents, relation.external_id)
        return self._asset(place, said, comment, acl)

    def _asset(
        self,
        place: tuple[str, str, str, tuple[str, ...]],
        said: Mapping[str, Any],
        comment: str | None,
        acl: Sequence[str] | None,
    ) -> FoundAsset:
        metadata: dict[str, Any] = {"connector_id": self._connector_id, **said}
        if acl is not None:
            metadata["grants"] = self._grants(acl)
        return FoundAsset(*place, metadata, comment or "")

    def _grants(self, acl: Sequence[str]) -> dict[str, list[str]]:
        grants: dict[str, list[str]] = defaultdict(list)
        for role, _, privilege in (each.partition(" ") for each in acl):
            grants[self._roles.get(role, role)].append(privilege)
        return {role: sorted(privileges) for role, privileges in sorted(grants.items())}


def names_of(relations: Iterable[Relation]) -> Iterator[tuple[str, Relation]]:
    """Relations by their qualified name in lower case, as lineage from SQL names them."""
    return ((f"{each.schema}.{each.name}".lower(), each) for each in relations)
