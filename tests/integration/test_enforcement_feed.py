"""What the log tells of tags is enforced, for a session that is open with its next query."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from enforcement_kit import enforcing, known_warehouse, register, rule, state, tag
from rest_kit import Gateway, gateway

from kit.enforced import Warehouse, soon_reads
from kit.eventually import eventually
from kit.told import tell, told
from lily.apps.enforcement import ENFORCER, EnforcementParts
from lily.domain.changes import ChangeKind
from lily.settings import Settings


@pytest.fixture
def api(settings: Settings) -> Iterator[Gateway]:
    with gateway(settings) as started:
        yield started


@pytest.fixture
def warehouse(api: Gateway) -> Iterator[Warehouse]:
    with known_warehouse(api) as made:
        yield made


def test_a_tag_told_by_the_log_masks_and_its_end_shows_again(api: Gateway, warehouse: Warehouse) -> None:
    connector_id = register(api, warehouse)
    rule(api, tag="PII")
    place = warehouse.column("customers", "email")
    with enforcing(api.settings):
        eventually(lambda: state(api, connector_id).get("state") == "enforced", 40)
        ana = warehouse.connect("ana")
        value = "SELECT email FROM customers WHERE id = 1"
        # Until the enforcer follows the log from its end, what is told is found by reading everything.
        tag(api, place, "PII")
        tell(api.settings.kafka, told(place, ChangeKind.TAGS, "acme"))
        soon_reads(ana, value, [(None,)])
        for _ in range(3):
            api.execute("DELETE FROM effective_tags")
            tell(api.settings.kafka, told(place, ChangeKind.TAGS, "acme"))
            soon_reads(ana, value, [("ada@example.org",)])
            tag(api, place, "PII")
            tell(api.settings.kafka, told(place, ChangeKind.TAGS, "acme", event_id=str(uuid4())))
            soon_reads(ana, value, [(None,)])


def test_a_new_table_has_its_database_scraped_at_once(
    api: Gateway, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is made of protected columns gets its tags by lineage, and lineage by a job."""
    monkeypatch.setattr("lily.targets.enforcement.scrapes.SCRAPE_SECONDS", 0.0)
    connector_id = register(api, warehouse)

    def ordered() -> list[str]:
        jobs = api.call("GET", f"/lily/v1/connectors/acme/{connector_id}/jobs").json()["jobs"]
        return [each["job_id"] for each in jobs if each["requested_by"] == ENFORCER]

    with enforcing(api.settings, EnforcementParts):
        eventually(lambda: len(ordered()) == 1, 40)
        api.execute("UPDATE scraping_jobs SET state = 'succeeded'")
        warehouse.run("GRANT SELECT ON customers TO {bob}")
        warehouse.run("SET ROLE {owner}; CREATE VIEW public.fresh AS SELECT email FROM public.customers")
        warehouse.run("RESET ROLE")
        eventually(lambda: len(ordered()) == 2, 10)
