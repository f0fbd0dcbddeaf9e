"""A tag set over REST masks columns in a real database two hops away, for sessions that are open."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import psutil
import psycopg
import pytest

from kit.enforced import Warehouse
from kit.eventually import eventually
from kit.platform import Platform, Tenant

API = "/lily/v1"
RELATIONS = ("customers", "orders", "buyers")
MASKED = {"a*****", "b*****"}
#: Planned before a mask came, and carried out after it.
REFUSED = (psycopg.errors.InsufficientPrivilege,)


class Protected(Tenant):
    """A tenant with a warehouse: customers.email → orders.email → buyers.email."""

    def __init__(self, platform: Platform, warehouse: Warehouse) -> None:
        super().__init__(platform)
        self.warehouse = warehouse
        self.connector_id = self._register()
        self.ask("POST", "/metadata", json={"assets": [*self._assets()]})
        ends = [*pairwise(RELATIONS)]
        edges = [
            {"from_asset_id": a, "to_asset_id": b, "relationship_type": "derived-from"}
            for a, b in ((warehouse.column(a, "email"), warehouse.column(b, "email")) for a, b in ends)
        ]
        self.ask("POST", "/metadata/lineage", json={"relationships": edges})

    def ask(self, method: str, path: str, **options: Any) -> Any:
        headers = {"authorization": f"Bearer {self.platform.token(self.name)}"}
        answer = self.platform.client.request(method, API + path, headers=headers, **options)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def tag(self) -> None:
        body = {"asset_id": self.warehouse.column("customers", "email"), "tags": ["PII"]}
        self.ask("POST", "/metadata/governance/classification", json=body)

    def untag(self) -> None:
        path = f"/metadata/governance/classification/{self.warehouse.column('customers', 'email')}"
        self.ask("DELETE", path, params={"tag": "PII"})

    def is_enforced(self) -> bool:
        found = self.ask("GET", "/protection/status")["targets"]
        return any((t["connector_id"], t["state"]) == (self.connector_id, "enforced") for t in found)

    def _register(self) -> str:
        info = self.warehouse.admin.info
        place = {"host": "127.0.0.1", "port": info.port, "database": info.dbname, "user": info.user}
        body = {"type": "postgres", "name": info.dbname, "secret": info.password, "config": place}
        return str(self.ask("POST", f"/connectors/{self.name}", json=body)["connector_id"])

    def _assets(self) -> Iterator[dict[str, Any]]:
        for relation in RELATIONS:
            place = self.warehouse.column(relation, "email")
            yield {
                "asset_id": place,
                "asset_name": "email",
                "asset_type": "column",
                "external_id": place,
                "data_source": self.warehouse.database,
                "metadata": {"data_type": "text", "connector_id": self.connector_id},
            }


@pytest.fixture(scope="module")
def protected(platform: Platform) -> Iterator[Protected]:
    warehouse = Warehouse(platform.settings.database.url.get_secret_value())
    made = Protected(platform, warehouse)
    made.ask("POST", "/protection/rules", json={"tag": "PII", "mask": {"kind": "partial", "first": 1}})
    eventually(made.is_enforced, 60)
    yield made
    made.ask("DELETE", f"/connectors/{made.name}/{made.connector_id}", params={"abandon": "true"})
    warehouse.close()


def read(session: psycopg.Connection[Any], relation: str) -> set[Any]:
    return {row[0] for row in session.execute(f"SELECT email FROM {relation}".encode()).fetchall()}


def test_a_tag_masks_two_hops_away_for_an_open_session_and_untagging_shows_again(
    protected: Protected,
) -> None:
    before = protected.warehouse.snapshot()
    ana = protected.warehouse.connect("ana")
    values = {"ada@example.org", "bo@example.org"}
    assert read(ana, "customers") == read(ana, "buyers") == values
    protected.tag()
    for relation in RELATIONS:
        eventually(lambda relation=relation: read(ana, relation) == MASKED, 20, REFUSED)
        with pytest.raises(REFUSED):
            read(ana, f"public.{relation}")
    protected.untag()
    for relation in RELATIONS:
        eventually(lambda relation=relation: read(ana, relation) == values, 20)
    eventually(lambda: protected.warehouse.snapshot() == before, 10)


def test_a_killed_dispatcher_leaves_masks_in_place_and_goes_on_where_it_was(protected: Protected) -> None:
    ana = protected.warehouse.connect("ana")
    protected.tag()
    for relation in RELATIONS:  # one may be masked before another
        eventually(lambda relation=relation: read(ana, relation) == MASKED, 20, REFUSED)
    psutil.Process(protected.platform.pids()["dispatcher"]).kill()
    protected.warehouse.run("SET ROLE {owner}; GRANT SELECT ON customers TO PUBLIC; RESET ROLE")
    for _ in range(20):
        assert shown(ana) <= MASKED
        time.sleep(0.1)
    eventually(lambda: read(ana, "customers") == MASKED, 60, (psycopg.Error,))
    protected.untag()
    eventually(lambda: "ada@example.org" in read(ana, "customers"), 30)


def shown(session: psycopg.Connection[Any]) -> set[Any]:
    """What a session sees of customers' addresses; nothing when it is refused."""
    try:
        return read(session, "customers")
    except REFUSED:
        return set()
