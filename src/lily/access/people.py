"""Whom the directory knows: their roles and groups, and the roles groups give; for explanations and plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lily.access.principals import Principal
from lily.repositories.postgres.directory import Directory
from lily.repositories.postgres.identities import Identities
from lily.repositories.postgres.pool import Database

#: By the name of the group, the roles it gives its members.
GroupRoles = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Known:
    """Everybody who can log in, with the roles that are their own."""

    people: tuple[Principal, ...] = ()
    group_roles: GroupRoles = field(default_factory=dict)


class People:
    def __init__(self, database: Database) -> None:
        self._identities = Identities(database)
        self._directory = Directory(database)

    async def complete(self, who: Principal) -> tuple[Principal, bool | None]:
        """Somebody with what the directory knows of them besides; and whether they are active, if known."""
        person = await self._identities.person(who.tenant_id, who.subject, groups=sorted(who.groups))
        roles, groups = who.roles | person.roles, who.groups | person.groups
        return replace(who, roles=roles, groups=groups), person.active

    async def known(self, tenant_id: str) -> Known:
        """All active people of a tenant, and what its groups give."""
        people = await self._directory.people(tenant_id)
        roles = await self._directory.group_roles(tenant_id)
        return Known(
            tuple(
                Principal(tenant_id, name, frozenset(own), frozenset(groups)) for name, own, groups in people
            ),
            {group: frozenset(given) for group, given in roles.items()},
        )


def with_group_roles(principal: Principal, group_roles: GroupRoles) -> Principal:
    """The same with the roles of their groups."""
    given = [group_roles.get(group, frozenset()) for group in principal.groups]
    return replace(principal, roles=principal.roles.union(*given))
