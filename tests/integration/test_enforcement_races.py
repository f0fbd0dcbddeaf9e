"""Owners change the schema, the enforcer is killed: no analyst ever sees what is said to be masked."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
import pytest

from kit.enforced import Warehouse, mails
from kit.eventually import eventually
from kit.races import SECRETS, TABLES, Analyst, Owner, Promise
from lily.domain.protection import Protection
from lily.targets.enforcement.workshop import Disturbed, Workshop

if TYPE_CHECKING:
    from lily.standalone.services import Services

#: Forty runs with LILY_TEST_PROFILE=explore.
SEEDS = range(40) if os.environ.get("LILY_TEST_PROFILE") == "explore" else range(3)
ROUNDS = 20
#: The tables that are protected by their tags: under one of its names each, and one of its column's names.
_PROMISED = """
WITH tagged AS (SELECT o.relation, p.relation_name, o.shield
                  FROM lily_protection.places() AS p JOIN lily_protection.originals o USING (relation))
SELECT 'customers' WHERE EXISTS (SELECT FROM tagged WHERE relation = %s AND relation_name = 'customers'
                                    AND shield -> '3' ? 'email')
   AND EXISTS (SELECT FROM tagged WHERE relation_name = 'buyers' AND shield -> '2' ? 'email')
 UNION ALL
SELECT 'orders' WHERE EXISTS (SELECT FROM tagged CROSS JOIN LATERAL jsonb_each(shield) AS column_names
                               WHERE relation_name = 'orders' AND column_names.value ? 'email')
"""


@pytest.fixture
def warehouse(services: Services) -> Iterator[Warehouse]:
    made = Warehouse(services.environment["LILY_DATABASE_URL"], TABLES)
    yield made
    made.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_value_is_ever_shown_once_a_mask_is_live(warehouse: Warehouse, seed: int) -> None:
    """Every second time, nothing unknown is readable either: nor is a view somebody makes meanwhile."""
    denies_unknown = seed % 2 == 1
    promise = Promise()
    enforcer = MortalEnforcer(warehouse, random.Random(seed), denies_unknown)
    analysts = [Analyst(warehouse, role, seed, promise, denies_unknown) for role in ("ana", "bob")]
    with analysts[0], analysts[1]:
        eventually(lambda: analysts[0].seen | analysts[1].seen >= SECRETS.keys(), 10)
        eventually(lambda: enforcer.enforce(mails(warehouse)), 10)
        with Owner(warehouse, "owner", seed) as owner:
            promise.give("customers")
            promise.give("orders")
            for _ in range(ROUNDS):
                if enforcer.chance.random() < 0.3:
                    promise.lift()
                    enforcer.enforce({})
                if enforcer.enforce(mails(warehouse)):
                    for table in enforcer.protected():
                        promise.give(table)
    assert [leak for analyst in analysts for leak in analyst.leaks] == []
    assert owner.times > 0, "nothing was ever changed"


class MortalEnforcer:
    """Works as a worker does; its connection is killed at any moment, and it goes on with another."""

    def __init__(self, warehouse: Warehouse, chance: random.Random, denies_unknown: bool) -> None:
        self.chance = chance
        self._warehouse = warehouse
        self._denies_unknown = denies_unknown
        [[self._customers]] = warehouse.boss.execute("SELECT 'customers'::regclass::oid").fetchall()
        self._workshop = self._open()

    def enforce(self, protections: dict[str, tuple[Protection, ...]]) -> bool:
        """Whether all of it is in force: what the status tells as enforced."""
        killing = threading.Timer(self.chance.uniform(0, 0.15), self._kill, [self._process])
        is_killed = self.chance.random() < 0.3
        if is_killed:
            killing.start()
        try:
            known = self._known() if self._denies_unknown else None
            works = self._workshop.plan(protections, known=known)
            return not self._workshop.apply(works).is_unfinished
        except (psycopg.Error, Disturbed):
            self._workshop = self._open()
            return False
        finally:
            if is_killed:
                killing.cancel()
                killing.join()

    def protected(self) -> list[str]:
        """The tables whose values nobody may see now, with the view made of them."""
        return [table for (table,) in self._warehouse.boss.execute(_PROMISED, [self._customers])]

    def _open(self) -> Workshop:
        admin = self._warehouse.reopen()
        admin.execute("SET lock_timeout = 50")
        self._process = admin.info.backend_pid
        for _ in range(20):
            with suppress(psycopg.Error):  # somebody is in the way
                return self._warehouse.workshop(deny_unknown=self._denies_unknown)
        raise AssertionError("the enforcer does not come back")

    def _kill(self, process: int) -> None:
        with psycopg.connect(self._warehouse.url) as killer:
            killer.execute("SELECT pg_terminate_backend(%s)", [process])

    def _known(self) -> set[str]:
        columns = ("id", "name", "email", "customer", "total")
        relations = ("customers", "orders", "buyers")
        named = {self._warehouse.column(relation, column) for relation in relations for column in columns}
        return named | {f"{self._warehouse.database}.public.{relation}" for relation in relations}
