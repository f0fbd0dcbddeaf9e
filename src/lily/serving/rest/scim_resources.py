"""Users and groups between SCIM's words and the directory's."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any
from uuid import UUID

from scim2_models import (
    EnterpriseUser,
    Group,
    GroupMember,
    InvalidValueException,
    Meta,
    NotFoundException,
    PreconditionFailedException,
    Resource,
    SearchRequest,
    TooManyException,
    User,
)
from scim2_models.resources.user import GroupMembership

from lily.access.passwords import Passwords
from lily.repositories.postgres.directory import (
    Directory,
    GroupData,
    GroupRow,
    Selection,
    Slot,
    UserData,
    UserRow,
)

ScimUser = User[EnterpriseUser]
MAX_PAGE = 200
#: A filter that PostgreSQL cannot answer by an index is matched one by one, among so many at most.
MAX_SCAN = 20_000
_EQUALS = re.compile(r'\s*(id|externalId|userName|displayName)\s+eq\s+"([^"\\]*)"\s*', re.IGNORECASE)


class Collection(ABC):
    """All resources of one type. A write names the version it replaces."""

    model: Any
    endpoint: str

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    async def find(self, tenant_id: str, resource_id: str, base: str) -> Any:
        """The resource; `NotFoundException` when there is none."""
        _, found = await self._select(tenant_id, Selection(id=_uuid(resource_id)), 0, 1, base)
        if not found:
            raise NotFoundException(detail=f"there is no {self.model.__name__} {resource_id}")
        return found[0]

    async def search(self, tenant_id: str, request: SearchRequest[Any], base: str) -> tuple[int, list[Any]]:
        """How many match, and the page that was asked for."""
        start, count = page_of(request)
        selection = self._selection(str(request.filter)) if request.filter else Selection()
        if selection is not None:
            return await self._select(tenant_id, selection, start, count, base)
        everything = await self.scan(tenant_id, base)
        matching = [each for each in everything if request.filter and request.filter.match(each)]
        return len(matching), matching[start : start + count]

    async def scan(self, tenant_id: str, base: str) -> list[Any]:
        """All there are, in the order they came."""
        total, everything = await self._select(tenant_id, Selection(), 0, MAX_SCAN, base)
        if total > MAX_SCAN:
            raise TooManyException(detail="too many to match one by one; filter by userName eq or id eq")
        return everything

    @abstractmethod
    async def create(self, tenant_id: str, resource: Any) -> str: ...

    @abstractmethod
    async def update(self, tenant_id: str, version: int, resource: Any) -> None: ...

    @abstractmethod
    async def delete(self, tenant_id: str, version: int, resource: Any) -> None: ...

    @abstractmethod
    async def _select(
        self, tenant_id: str, selection: Selection, offset: int, limit: int, base: str
    ) -> tuple[int, list[Any]]: ...

    def _selection(self, text: str) -> Selection | None:
        """The filter as a question to the index, if it is one."""
        match = _EQUALS.fullmatch(text)
        name = "userName" if self.model is ScimUser else "displayName"
        if not match or match[1].lower() not in ("id", "externalid", name.lower()):
            return None
        if match[1].lower() == "id":
            return Selection(id=_uuid(match[2]))
        return (
            Selection(external_id=match[2]) if match[1].lower() == "externalid" else Selection(name=match[2])
        )


class Users(Collection):
    model = ScimUser
    endpoint = "Users"

    def __init__(self, directory: Directory, passwords: Passwords) -> None:
        super().__init__(directory)
        self._passwords = passwords

    async def create(self, tenant_id: str, resource: Any) -> str:
        return await self._directory.create_user(tenant_id, await self._data(resource))

    async def update(self, tenant_id: str, version: int, resource: Any) -> None:
        data = await self._data(resource)
        _check_kept(await self._directory.update_user(tenant_id, resource.id, version, data))

    async def delete(self, tenant_id: str, version: int, resource: Any) -> None:
        _check_kept(await self._directory.delete_user(tenant_id, resource.id, version))

    async def _data(self, user: Any) -> UserData:
        _check_name("userName", user.user_name)
        password_hash = await self._passwords.hash(user.password) if user.password else None
        document = user.model_dump()
        for name in ("id", "meta", "password", "groups", "userName", "externalId"):
            document.pop(name, None)
        return UserData(user.user_name, user.external_id, user.active is not False, document, password_hash)

    async def _select(
        self, tenant_id: str, selection: Selection, offset: int, limit: int, base: str
    ) -> tuple[int, list[Any]]:
        total, rows = await self._directory.users(tenant_id, selection, offset, limit)
        return total, [_user(row, base) for row in rows]


class Groups(Collection):
    model = Group
    endpoint = "Groups"

    async def create(self, tenant_id: str, resource: Any) -> str:
        return await self._directory.create_group(tenant_id, _group_data(resource))

    async def update(self, tenant_id: str, version: int, resource: Any) -> None:
        data = _group_data(resource)
        _check_kept(await self._directory.update_group(tenant_id, resource.id, version, data))

    async def delete(self, tenant_id: str, version: int, resource: Any) -> None:
        _check_kept(await self._directory.delete_group(tenant_id, resource.id, version))

    async def _select(
        self, tenant_id: str, selection: Selection, offset: int, limit: int, base: str
    ) -> tuple[int, list[Any]]:
        total, rows = await self._directory.groups(tenant_id, selection, offset, limit)
        return total, [_group(row, base) for row in rows]


def page_of(request: SearchRequest[Any]) -> tuple[int, int]:
    """Where the page that was asked for begins, and how many it holds at most."""
    count = MAX_PAGE if request.count is None else min(max(request.count, 0), MAX_PAGE)
    return (request.start_index or 1) - 1, count


def version_of(resource: Any) -> int:
    return int(str(resource.meta.version).strip('W/"'))


def _user(row: UserRow, base: str) -> Any:
    user = ScimUser.model_validate({**row.document, "userName": row.name})
    _describe(user, row, "User", f"{base}/Users/{row.id}")
    # Not said is as good as active, and is not said to others either.
    user.active = row.active if "active" in row.document or not row.active else None
    user.groups = [
        GroupMembership.model_validate(
            {"value": each, "display": name, "$ref": f"{base}/Groups/{each}", "type": "direct"}
        )
        for each, name in row.groups
    ] or None
    return user


def _group(row: GroupRow, base: str) -> Any:
    members = [
        GroupMember.model_validate(
            {"value": each, "display": name, "$ref": f"{base}/Users/{each}", "type": "User"}
        )
        for each, name in row.members
    ]
    group = Group(display_name=row.name, members=members or None)
    _describe(group, row, "Group", f"{base}/Groups/{row.id}")
    return group


def _describe(resource: Resource[Any], row: Slot, kind: str, location: str) -> None:
    resource.id = row.id
    resource.external_id = row.external_id
    resource.meta = Meta(
        resource_type=kind,
        created=row.created_at,
        last_modified=row.updated_at,
        location=location,
        version=f'W/"{row.version}"',
    )


def _group_data(group: Any) -> GroupData:
    _check_name("displayName", group.display_name)
    members = group.members or []
    if any(member.type not in (None, "User") for member in members):
        raise InvalidValueException(detail="a member of a group is a user, not another group")
    named = {_uuid(str(each.value)): each.display for each in members}
    return GroupData(group.display_name, group.external_id, named)


def _check_name(attribute: str, name: str | None) -> None:
    if not name or not name.isprintable() or len(name) > 256 or name.startswith("key:"):
        raise InvalidValueException(detail=f"{attribute} is 1 to 256 printable characters, not key:…")


def _check_kept(written: bool) -> None:
    if not written:
        raise PreconditionFailedException(detail="it was changed meanwhile; read it again")


def _uuid(text: str) -> str:
    """The id, or one nothing has: what is no id finds nothing."""
    try:
        return str(UUID(text))
    except ValueError:
        return str(UUID(int=0))
