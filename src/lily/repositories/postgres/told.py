"""Records what was matched as notifications for people, each change of a subscription once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from psycopg.types.json import Jsonb
from pydantic_core import to_json

from lily.domain.messages import Message
from lily.domain.notifications import State, after_change, notification_id, notification_of
from lily.domain.subscriptions import Match
from lily.domain.wording import explain, lasting
from lily.repositories.postgres.pool import Connection
from lily.repositories.postgres.queries import load

_SQL = load("notifications.sql")
#: Tenant and notification.
_Key = tuple[str, str]
#: Tenant, notification and cause.
_Counted = tuple[str, str, str]


async def record_matches(connection: Connection, matches: Sequence[Match]) -> list[Match]:
    """Those of the matches that were not recorded before, their messages with the count of their groups.

    To be called within a transaction, as the tables' owner, together with whatever else is done about the
    matches: a change that is read again after the commit is told by nobody again, and one read again after
    a rollback by everybody.
    """
    if not matches:
        return []
    keys = {_key(match): match for match in matches}
    states = await _lock(connection, keys)
    known, fresh = await _insert_causes(connection, matches)
    counts = await _update(connection, _after(states, known, fresh), fresh) if fresh else {}
    return [replace(match, message=replace(match.message, count=counts[_key(match)])) for match in fresh]


async def notify_owners(connection: Connection, target: Mapping[str, str], message: Message) -> list[str]:
    """A notification with this message for everybody who has a subscription that tells this target (tenant
    and connector); returns who they are."""
    rows = await (await connection.execute(_SQL["list_target_owners"], target)).fetchall()
    owners = [str(row[0]) for row in rows]
    values = {
        "tenant_id": target["tenant_id"],
        "notification_ids": [
            notification_of(target["tenant_id"], owner, message.group_key) for owner in owners
        ],
        "recipients": owners,
        "group_key": message.group_key,
        "message": Jsonb(message.document()),
    }
    await connection.execute(_SQL["notify"], values)
    return owners


async def _lock(connection: Connection, keys: dict[_Key, Match]) -> dict[_Key, State]:
    values = {
        "tenant_ids": [tenant_id for tenant_id, _ in keys],
        "notification_ids": [notification for _, notification in keys],
        "recipients": [match.subscription.owner for match in keys.values()],
        "group_keys": [match.message.group_key for match in keys.values()],
    }
    await connection.execute(_SQL["open_notifications"], values)
    rows = await (await connection.execute(_SQL["lock_notifications"], values)).fetchall()
    return {(row[0], row[1]): State(row[2]) for row in rows}


async def _insert_causes(
    connection: Connection, matches: Sequence[Match]
) -> tuple[set[_Counted], list[Match]]:
    """What the notifications stood for before, and which matches are new."""
    values = {
        "tenant_ids": [match.change.tenant_id for match in matches],
        "subscription_ids": [match.subscription.subscription_id for match in matches],
        "cause_keys": [match.cause_key for match in matches],
        "notification_ids": [notification_id(match) for match in matches],
        "changes": [match.change.name for match in matches],
        "event_ids": [match.change.event_id for match in matches],
        "asset_ids": [match.change.subject for match in matches],
        "paths": [Jsonb(list(match.path)) for match in matches],
        "reasons": [explain(match.subscription) for match in matches],
        "applied_at": [match.change.applied_at for match in matches],
    }
    known = await (await connection.execute(_SQL["known_causes"], values)).fetchall()
    new = set(await (await connection.execute(_SQL["insert_causes"], values)).fetchall())
    fresh = []
    for match in matches:
        told = (match.change.tenant_id, match.subscription.subscription_id, match.cause_key)
        if told in new:
            new.discard(told)
            fresh.append(match)
    return {(row[0], row[1], row[2]) for row in known}, fresh


def _after(states: dict[_Key, State], known: set[_Counted], fresh: Sequence[Match]) -> dict[_Key, State]:
    """The states that the new changes lead to; told by several subscriptions, a change happened once."""
    counted = set(known)
    for match in fresh:
        key = _key(match)
        if (*key, match.cause_key) not in counted:
            counted.add((*key, match.cause_key))
            states[key] = after_change(states[key], match.change)
    return states


async def _update(
    connection: Connection, states: dict[_Key, State], fresh: Sequence[Match]
) -> dict[_Key, int]:
    newest = {_key(match): match for match in fresh}
    values = {
        "tenant_ids": [tenant_id for tenant_id, _ in newest],
        "notification_ids": [notification for _, notification in newest],
        "states": [states[key].value for key in newest],
        "messages": [_json(match) for match in newest.values()],
        "asset_ids": [match.change.subject for match in newest.values()],
        "incident_ids": [match.change.incident_id or None for match in newest.values()],
    }
    rows = await (await connection.execute(_SQL["update_notifications"], values)).fetchall()
    return {(row[0], row[1]): row[2] for row in rows}


def _key(match: Match) -> _Key:
    return match.change.tenant_id, notification_id(match)


def _json(match: Match) -> Any:
    """As jsonb can hold it, which has no U+0000."""
    return to_json(lasting(match).document()).decode().replace("\\u0000", "\\ufffd")
