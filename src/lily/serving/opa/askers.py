"""Who stands behind an engine's question: the engine's user as the tenant knows them, remembered."""

from __future__ import annotations

from dataclasses import dataclass

from lily.access.decision_points import Access
from lily.access.principals import Principal
from lily.repositories.postgres.announcements import Announcement, Announcements
from lily.repositories.postgres.identities import Identities

_MOST = 20_000
_CONCERNING = frozenset({"user", "group", "rules"})


@dataclass(frozen=True, slots=True)
class Asker:
    """`is_barred`: known to the tenant, and deactivated."""

    user: str
    roles: frozenset[str]
    groups: frozenset[str]
    is_barred: bool = False


class Askers:
    """A user of the engine is the person of that name; one nobody knows has no role of their own.

    Groups are those the engine tells, else those the person is a member of.
    """

    def __init__(self, identities: Identities, access: Access, announcements: Announcements) -> None:
        self._identities = identities
        self._access = access
        self._announcements = announcements
        self._known: dict[tuple[str, str, frozenset[str]], Asker] = {}
        announcements.subscribe(self._hear)

    async def of(self, tenant_id: str, user: str, groups: frozenset[str]) -> Asker:
        known = self._known.get((tenant_id, user, groups))
        if known is not None and self._announcements.is_current():
            return known
        generation = self._announcements.generation
        person = await self._identities.person(tenant_id, user, groups=sorted(groups))
        await self._access.refresh(tenant_id)
        mine = groups or person.groups
        principal = Principal(tenant_id, user, person.roles, mine)
        roles = self._access.book(tenant_id).roles_of(principal)
        asker = Asker(user, roles, mine, person.active is False)
        if generation == self._announcements.generation:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[tenant_id, user, groups] = asker
        return asker

    def _hear(self, announcement: Announcement | None) -> None:
        if announcement is None or announcement.kind in _CONCERNING:
            tenant = None if announcement is None else announcement.tenant_id
            self._known = {key: asker for key, asker in self._known.items() if tenant and key[0] != tenant}
