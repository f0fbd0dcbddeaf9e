"""Which subscriptions a batch of changes is told by: the real PostgreSQL, the real rules."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from lily.access.decision_points import Access
from lily.access.live_books import LiveBooks
from lily.domain.changes import Change, read_change
from lily.domain.subscriptions import Match, Selection, Subscription
from lily.repositories.postgres.announcements import LEASE_SECONDS, Announcements
from lily.repositories.postgres.assets import PostgresAssets
from lily.repositories.postgres.lineage import PostgresLineage
from lily.repositories.postgres.policies import PostgresPolicies
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.subscriptions import PostgresSubscriptions, Vouched
from lily.settings import Settings
from lily.targets import matching
from lily.targets.matching import Subscriptions
from lily.targets.subscribers import LiveSubscribers

NOW = datetime(2026, 2, 1, tzinfo=UTC)
#: orders → daily → dashboard, and an asset beside them.
CHAIN = ("orders", "daily", "dashboard")


class World:
    """A database of one tenant with a chain of lineage, and what matches in it."""

    def __init__(self, settings: Settings, database: Database, announcements: Announcements) -> None:
        self._url = settings.database.url.get_secret_value()
        self.stored = PostgresSubscriptions(database)
        self.announcements = announcements
        self.matching = Subscriptions(
            LiveSubscribers(announcements, self.stored),
            PostgresAssets(database),
            PostgresLineage(database),
            Access(LiveBooks(announcements, PostgresPolicies(database))),
        )

    def insert(self, table: str, **row: Any) -> None:
        names, places = ", ".join(f'"{name}"' for name in row), ", ".join(["%s"] * len(row))
        with psycopg.connect(self._url) as connection:
            connection.execute(
                f"INSERT INTO {table} (tenant_id, {names}) VALUES ('acme', {places})".encode(),
                list(row.values()),
            )

    def execute(self, statement: str) -> None:
        with psycopg.connect(self._url) as connection:
            connection.execute(statement.encode())

    def add_asset(self, asset_id: str, **columns: Any) -> None:
        row = {"asset_name": asset_id.title(), "asset_type": "table", "created_at": NOW, "version": 1}
        clock = {"fields": 3, "clock_time": NOW, "clock_id": uuid4()}
        self.insert("assets", asset_id=asset_id, **row | clock | columns)

    def add_chain(self) -> None:
        for asset_id in (*CHAIN, "beside"):
            self.add_asset(asset_id)
        for above, below in pairwise(CHAIN):
            self.insert("edges", from_id=above, to_id=below, relationship_type="derived-from")

    def hide(self, tag: str, role: str = "viewer") -> None:
        rule = {"role": role, "access_type": "READ", "effect": "forbid", "scope": "tag", "value": tag}
        self.insert("policies", created_by="test", **rule)

    async def subscribe(
        self, owner: str = "ada", role: str = "viewer", key_id: str | None = None, **selection: Any
    ) -> Subscription:
        chosen = Selection(**{name: frozenset(values) for name, values in selection.items()})
        made = Subscription("acme", str(uuid4()), f"{owner}'s", owner, chosen)
        await self.stored.add(made, Vouched([role], [], None, key_id))
        await self.announcements.wait_until_heard()
        return made

    async def told(self, *changes: Change) -> list[str]:
        """The assets told of, once per match."""
        return [str(match.change.subject) for match in await self.matches(*changes)]

    async def matches(self, *changes: Change) -> Sequence[Match]:
        await self.announcements.wait_until_heard()
        return await self.matching.matching(changes)


@asynccontextmanager
async def world(settings: Settings) -> AsyncIterator[World]:
    database = Database(settings.database)
    await database.open()
    announcements = Announcements(database)
    try:
        async with announcements.running():
            made = World(settings, database, announcements)
            made.add_chain()
            yield made
    finally:
        await database.close()


def changed(asset_id: str | None, kind: str = "asset", **data: Any) -> Change:
    said = {"tenant_id": "acme", "asset_id": asset_id, "event_id": str(uuid4()), "outcome": "updated"}
    change = read_change(f"io.lily.{kind}.changed.v1", said | data)
    assert change is not None
    return change


def opened(asset_id: str | None, severity: str = "SEV-1", **incident: Any) -> Change:
    document = {"severity": severity, "status": "open", "title": "Freshness"} | incident
    return changed(asset_id, "incident", outcome="opened", incident_id="i1", incident=document)


def test_downstream_of_an_asset_is_all_that_lineage_reaches_from_it(settings_without_log: Settings) -> None:
    async def run() -> None:
        async with world(settings_without_log) as here:
            await here.subscribe(downstream_of=["orders"])
            matches = await here.matches(*map(changed, (*CHAIN, "beside")))
            assert [match.change.subject for match in matches] == list(CHAIN)
            assert [match.path for match in matches] == [CHAIN[:1], CHAIN[:2], CHAIN]
            assert "path: orders → daily → dashboard" in matches[-1].message.reason

    asyncio.run(run())


def test_a_tenant_is_listened_to_from_its_first_subscription_on(settings_without_log: Settings) -> None:
    async def run() -> None:
        async with world(settings_without_log) as here:
            assert not await here.matching.listens_to("acme")
            await here.subscribe()
            assert await here.matching.listens_to("acme")
            assert not await here.matching.listens_to("globex")

    asyncio.run(run())


def test_upstream_of_an_asset_is_all_it_depends_on(settings_without_log: Settings) -> None:
    async def run() -> None:
        async with world(settings_without_log) as here:
            await here.subscribe(upstream_of=["dashboard"])
            [match] = await here.matches(opened("orders"), opened("beside"))
            assert match.path == CHAIN
            assert match.message.title == "Incident opened: Freshness on Orders"

    asyncio.run(run())


def test_an_incident_tells_its_rule_and_how_much_is_downstream_that_the_owner_may_read(
    settings_without_log: Settings,
) -> None:
    async def run() -> None:
        async with world(settings_without_log) as here:
            await here.subscribe()
            broken = opened("orders", rule={"description": "at least 100 rows", "type": "volume"})
            [match] = await here.matches(broken)
            fields = dict(match.message.fields)
            assert (fields["Rule"], fields["Blast radius"]) == ("at least 100 rows", "2 downstream")
            assert match.message.event_id == broken.event_id
            here.execute("UPDATE assets SET user_tags = '{pii}' WHERE asset_id = 'dashboard'")
            here.hide("pii")
            [match] = await here.matches(opened("orders"))
            assert dict(match.message.fields)["Blast radius"] == "1 downstream"
            [match] = await here.matches(opened("beside"))
            assert "Blast radius" not in dict(match.message.fields)

    asyncio.run(run())


def test_lineage_is_followed_once_for_all_changes(
    settings_without_log: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    fetch = Database.fetch

    async def counted(self: Database, statement: Any, parameters: Any) -> Any:
        asked.append(statement)
        return await fetch(self, statement, parameters)

    async def run() -> None:
        async with world(settings_without_log) as here:
            for number in range(10):
                await here.subscribe(owner=f"u{number}", downstream_of=["orders"])
            changes = [changed(asset_id) for asset_id in CHAIN for _ in range(10)]
            await here.matches(changes[0])
            monkeypatch.setattr(Database, "fetch", counted)
            assert len(await here.matching.matching(changes)) == 10 * 30
            # Traits, containers and names, twice where the way adds assets; and one question per hop.
            assert len(asked) <= 8, asked

    asyncio.run(run())


def test_a_batch_that_takes_longer_than_the_rules_are_leased_for_is_told_all_the_same(
    settings_without_log: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    covers = matching._covers

    def slow(*asked: Any) -> bool:
        time.sleep(LEASE_SECONDS)
        monkeypatch.setattr(matching, "_covers", covers)
        return covers(*asked)

    async def run() -> None:
        async with world(settings_without_log) as here:
            await here.subscribe()
            monkeypatch.setattr(matching, "_covers", slow)
            assert await here.told(changed("orders"), changed("daily")) == ["orders", "daily"]

    asyncio.run(run())


def test_a_way_over_an_asset_the_owner_may_not_read_is_no_way(settings_without_log: Settings) -> None:
    async def run() -> None:
        async with world(settings_without_log) as here:
            await here.subscribe(downstream_of=["orders"])
            here.execute("UPDATE assets SET user_tags = '{pii}' WHERE asset_id = 'daily'")
            assert await here.told(changed("dashboard")) == ["dashboard"]
            here.hide("pii")
            assert await here.told(changed("dashboard")) == []

    asyncio.run(run())


def test_what_the_owner_may_not_read_is_not_told_from_the_moment_it_is_forbidden(
    settings_without_log: Settings,
) -> None:
    async def run() -> None:
        async with world(settings_without_log) as here:
            await here.subscribe(owner="ada")
            await here.subscribe(owner="root", role="owner")
            here.execute("UPDATE assets SET user_tags = '{pii}' WHERE asset_id = 'orders'")
            told = await here.matches(changed("orders"), opened("orders"))
            assert {match.subscription.owner for match in told} == {"ada", "root"}
            here.hide("pii")
            told = await here.matches(changed("orders"), opened("orders"), changed("orders", "tags"))
            assert {match.subscription.owner for match in told} == {"root"}

    asyncio.run(run())


def test_a_change_is_not_told_with_what_was_hidden_when_it_happened(settings_without_log: Settings) -> None:
    async def run() -> None:
        async with world(settings_without_log) as here:
            await here.subscribe()
            here.hide("pii")
            assertions = {"source": [], "user": ["pii"]}
            document = {
                "asset_id": "orders",
                "asset_type": "table",
                "data_source": None,
                "asset_owner": None,
                "tag_assertions": assertions,
                "is_deleted": False,
            }
            assert await here.told(changed("orders", asset=document)) == []
            assertions["user"] = []
            assert await here.told(changed("orders", asset=document)) == ["orders"]

    asyncio.run(run())


def test_of_a_purged_asset_hears_only_who_may_read_everything(settings_without_log: Settings) -> None:
    async def run() -> None:
        async with world(settings_without_log) as here:
            await here.subscribe()
            assert await here.told(changed("gone", outcome="purged")) == ["gone"]
            here.hide("pii")
            assert await here.told(changed("gone", outcome="purged")) == []

    asyncio.run(run())


def test_where_a_tag_came_from_is_told_only_to_who_may_read_it(settings_without_log: Settings) -> None:
    async def run() -> None:
        async with world(settings_without_log) as here:
            here.add_asset("secret", user_tags=["private"])
            await here.subscribe(tags=["pii"])
            spread = changed("daily", "tags", added=["pii"], reasons={"pii": {"origin": "secret"}})
            [match] = await here.matches(spread)
            assert ("Came from", "secret") in match.message.fields
            here.hide("private")
            [match] = await here.matches(spread)
            assert "secret" not in str(match.message)

    asyncio.run(run())


def test_nobody_is_told_for_a_person_who_was_deactivated_or_removed(settings_without_log: Settings) -> None:
    async def run() -> None:
        async with world(settings_without_log) as here:
            here.insert("users", user_id=uuid4(), user_name="ada", active=True, document="{}")
            await here.subscribe(owner="ada")
            assert await here.told(changed("orders")) == ["orders"]
            here.execute("UPDATE users SET active = false")
            assert await here.told(changed("orders")) == []
            here.execute("UPDATE users SET active = true")
            assert await here.told(changed("orders")) == ["orders"]
            here.execute("DELETE FROM users")
            assert await here.told(changed("orders")) == []

    asyncio.run(run())


def test_a_role_taken_from_the_owner_is_taken_from_their_subscriptions(
    settings_without_log: Settings,
) -> None:
    async def run() -> None:
        async with world(settings_without_log) as here:
            roles = ["viewer"]
            here.insert("users", user_id=uuid4(), user_name="ada", active=True, document="{}", roles=roles)
            await here.subscribe(owner="ada", role="nobody")
            assert await here.told(changed("orders")) == ["orders"]
            here.execute("UPDATE users SET roles = '{}'")
            assert await here.told(changed("orders")) == []

    asyncio.run(run())


def test_a_subscription_made_with_a_key_has_the_rights_of_the_key_and_ends_with_it(
    settings_without_log: Settings,
) -> None:
    async def run() -> None:
        async with world(settings_without_log) as here:
            key = {"key_id": uuid4(), "name": "ci", "owner": "ada", "secret_hash": b"x", "roles": ["viewer"]}
            here.insert("api_keys", **key, expires_at=datetime(2100, 1, 1, tzinfo=UTC))
            here.insert(
                "users", user_id=uuid4(), user_name="ada", active=True, document="{}", roles=["owner"]
            )
            await here.subscribe(owner="ada", role="viewer", key_id=str(key["key_id"]))
            assert await here.told(changed("orders")) == ["orders"]
            here.hide("pii")  # from viewers, not from owners
            here.execute("UPDATE assets SET user_tags = '{pii}' WHERE asset_id = 'daily'")
            assert await here.told(changed("orders"), changed("daily")) == ["orders"]
            here.execute("UPDATE assets SET user_tags = '{own}' WHERE asset_id = 'daily'")
            here.hide("own", role="owner")  # what is forbidden to whom it belongs to is forbidden to a key
            assert await here.told(changed("orders"), changed("daily")) == ["orders"]
            here.execute("UPDATE api_keys SET revoked_at = clock_timestamp()")
            assert await here.told(changed("orders")) == []

    asyncio.run(run())


def test_a_subscription_made_with_a_key_ends_when_the_key_does_and_loses_what_its_owner_loses(
    settings_without_log: Settings,
) -> None:
    async def run() -> None:
        async with world(settings_without_log) as here:
            here.insert(
                "users", user_id=uuid4(), user_name="ada", active=True, document="{}", roles=["viewer"]
            )
            had = {"owner": "ada", "secret_hash": b"x", "roles": ["viewer"], "owner_roles": ["viewer"]}
            lasting, brief = uuid4(), uuid4()
            here.insert(
                "api_keys", key_id=lasting, name="a", **had, expires_at=datetime(2100, 1, 1, tzinfo=UTC)
            )
            end = datetime.now(UTC) + timedelta(seconds=2)
            here.insert("api_keys", key_id=brief, name="b", **had, expires_at=end)
            for key_id in (lasting, brief):
                await here.subscribe(owner="ada", role="viewer", key_id=str(key_id))
            assert await here.told(changed("orders")) == ["orders", "orders"]
            await asyncio.sleep(max((end - datetime.now(UTC)).total_seconds(), 0))
            assert await here.told(changed("orders")) == ["orders"]  # nothing was announced
            here.execute("UPDATE users SET roles = '{}'")
            assert await here.told(changed("orders")) == []

    asyncio.run(run())


def test_an_incident_attached_to_nothing_is_told_to_who_may_read_incidents(
    settings_without_log: Settings,
) -> None:
    async def run() -> None:
        async with world(settings_without_log) as here:
            await here.subscribe(owner="ada")
            await here.subscribe(owner="root", role="owner")
            told = await here.matches(opened(None))
            assert {match.subscription.owner for match in told} == {"root"}

    asyncio.run(run())


def test_one_tenant_is_never_told_what_happens_in_another(settings_without_log: Settings) -> None:
    async def run() -> None:
        async with world(settings_without_log) as here:
            await here.subscribe(role="owner")
            assert await here.told(changed("orders", tenant_id="globex")) == []
            assert await here.told(changed("orders")) == ["orders"]

    asyncio.run(run())
