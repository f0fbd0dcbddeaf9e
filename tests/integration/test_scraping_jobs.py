"""Jobs that read a source: ordered over the log, run once, sending what is different and allowed, retried."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from rest_kit import Gateway, gateway, problem

from kit.databases import Databases
from kit.warehouses import Warehouse
from lily.apps.connectors import open_connectors
from lily.apps.scraper import Worker
from lily.apps.scraping import open_ways_in
from lily.domain.assets import derive_asset_id
from lily.domain.scraping import MAX_ATTEMPTS, REFRESH
from lily.ingest.scraping.jobs import JobRunner, Registry
from lily.ingest.scraping.orders import Orders
from lily.ingest.scraping.sending import Outbox
from lily.ingest.scraping.sources import plugged_in
from lily.log.producer import LogProducer
from lily.log.topics import Topic
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.scraping import Ending, JobState, ScrapingJobs
from lily.settings import Settings
from lily.targets.enforcement.reaching import reach


@pytest.fixture(scope="module")
def module_api(shared_settings: Settings) -> Iterator[Gateway]:
    with gateway(shared_settings) as running:
        yield running


@pytest.fixture
def warehouse(databases: Databases) -> Iterator[Warehouse]:
    url = databases.create_empty()
    yield Warehouse(url)
    databases.drop(url)


@pytest.fixture(autouse=True)
def _no_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing becomes visible here, so nobody waits for it."""
    monkeypatch.setattr(Outbox, "see_seconds", 0.0)


class Shop:
    """A connector of a tenant of its own, and what came of its jobs."""

    def __init__(self, api: Gateway, warehouse: Warehouse, **config: Any) -> None:
        self.api = api
        self.warehouse = warehouse
        self.tenant = f"t-{uuid4().hex[:8]}"
        self.token = api.token(self.tenant)
        body = {
            "type": "postgres",
            "name": "shop",
            "secret": warehouse.password,
            "config": warehouse.config | config,
        }
        made = api.call("POST", f"/lily/v1/connectors/{self.tenant}", as_=self.token, json=body)
        assert made.status_code == 201, made.text
        self.connector_id = made.json()["connector_id"]
        self.place = f"/lily/v1/connectors/{self.tenant}/{self.connector_id}"
        self._read = Counter[Topic]()

    def allow(self, *external_ids: str) -> None:
        ids = [self.asset_id(each) for each in external_ids or ("",)]
        path = "/lily/v1/access/scraper-policies/shop"
        put = self.api.call("PUT", path, as_=self.token, json={"allowed_columns": ids})
        assert put.is_success, put.text

    def asset_id(self, external_id: str = "") -> str:
        name = self.warehouse.name
        return derive_asset_id("shop", f"{name}.{external_id}" if external_id else name)

    def order(self, mode: str = "incremental") -> str:
        answer = self.api.call("POST", f"{self.place}/scrape?mode={mode}", as_=self.token)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["job_id"])

    def job(self, job_id: str) -> dict[str, Any]:
        return dict(self.api.call("GET", f"{self.place}/jobs/{job_id}", as_=self.token).json())

    def scrape(self, mode: str = "incremental") -> dict[str, Any]:
        """Order a job, run it here, and return what is told of it."""
        job_id = self.order(mode)
        asyncio.run(self._run(job_id))
        return self.job(job_id)

    async def _run(self, job_id: str) -> None:
        settings = self.api.settings
        database = Database(settings.database)
        await database.open()
        registry = Registry(database, open_connectors(settings.secrets, database))
        try:
            claim = await registry.jobs.claim(self.tenant, job_id, uuid4())
            assert claim is not None
            async with open_ways_in(settings, database) as ways_in:
                await JobRunner(registry, ways_in, reach).run(claim)
        finally:
            await database.close()

    def sent(self, topic: Topic) -> list[dict[str, Any]]:
        """What this tenant's jobs put on a topic since the last question."""
        mine = [
            json.loads(each.value()) | {"type": dict(each.headers())["ce_type"].decode()}
            for each in self.api.logged(topic)
            if dict(each.headers())["ce_tenantid"].decode() == self.tenant
        ]
        fresh = mine[self._read[topic] :]
        self._read[topic] = len(mine)
        return fresh

    def columns(self) -> set[str]:
        cut = len(self.warehouse.name) + 1
        return {each["external_id"][cut:] for each in self.sent(Topic.LEAF_ASSETS) if "external_id" in each}


@pytest.fixture
def shop(module_api: Gateway, warehouse: Warehouse) -> Shop:
    return Shop(module_api, warehouse)


def test_a_scrape_sends_what_is_there_and_the_next_one_only_what_is_different(shop: Shop) -> None:
    shop.allow()
    first = shop.scrape()
    assert (first["state"], first["error"], first["notes"]) == ("succeeded", None, [])
    assert first["counts"]["found"] == first["counts"]["sent"] == 20
    assert first["counts"]["edges"] > 0
    again = shop.scrape()
    assert again["counts"] == {"found": 20, "unchanged": 22}
    shop.warehouse.execute(
        b"COMMENT ON TABLE shop.orders IS 'All orders.'", b"ALTER TABLE shop.orders ADD x int"
    )
    changed = shop.scrape()["counts"]
    assert (changed["found"], changed["sent"]) == (21, 2)
    assert shop.scrape("full")["counts"]["sent"] == 21


def test_events_say_what_the_seam_promises(shop: Shop) -> None:
    shop.allow()
    shop.scrape()
    leaves = {each["external_id"]: each for each in shop.sent(Topic.LEAF_ASSETS)}
    email = leaves[f"{shop.warehouse.name}.shop.customers.email"]
    assert (email["asset_type"], email["data_source"], email["asset_name"]) == ("column", "shop", "email")
    assert email["metadata"]["data_type"] == "text"
    assert email["metadata"]["connector_id"] == shop.connector_id
    assert email["description"] == "Where invoices go."
    assert not {"asset_owner", "tags", "business_terms"} & email.keys()  # what people say is theirs
    edges = {
        (each["from_asset_id"], each["to_asset_id"], each["relationship_type"])
        for each in shop.sent(Topic.METADATA_EVENTS)
    }
    table, column = shop.asset_id("shop.customers"), shop.asset_id("shop.customers.email")
    assert (shop.asset_id("shop"), table, "contains") in edges
    assert (table, column, "contains") in edges
    assert (column, shop.asset_id("shop.customer_orders.email"), "derived-from") in edges


def test_what_vanished_is_hidden_its_lineage_taken_back_and_what_contained_it_kept(shop: Shop) -> None:
    shop.allow()
    shop.scrape()
    shop.sent(Topic.STRUCTURAL_ASSETS), shop.sent(Topic.LEAF_ASSETS), shop.sent(Topic.METADATA_EVENTS)
    shop.warehouse.execute(b"DROP VIEW shop.mailing", b"ALTER TABLE shop.customers DROP name CASCADE")
    counts = shop.scrape()["counts"]
    assert counts["deleted"] == 8  # two views with 1 and 4 columns, and a column
    hidden = [each for each in shop.api.logged(Topic.LEAF_ASSETS) if b'"is_deleted":true' in each.value()]
    assert len([each for each in hidden if shop.tenant.encode() in each.key()]) == 6
    said = [
        (json.loads(each.value())["relationship_type"], dict(each.headers())["ce_type"].decode())
        for each in shop.api.logged(Topic.METADATA_EVENTS)
        if shop.tenant.encode() in each.key()
    ]
    assert ("derived-from", "io.lily.edge.retracted.v1") in said
    assert ("contains", "io.lily.edge.retracted.v1") not in said
    assert shop.scrape()["counts"].get("deleted", 0) == 0
    shop.warehouse.execute(b"ALTER TABLE shop.customers ADD name text")
    assert shop.scrape()["counts"]["sent"] == 1
    returned = [each for each in shop.api.logged(Topic.LEAF_ASSETS) if b"customers.name" in each.value()]
    assert any(
        b'"is_deleted":null' in each.value() for each in returned if shop.tenant.encode() in each.key()
    )


def test_without_a_scraper_policy_no_column_leaves_the_source_and_the_job_says_what_to_do(shop: Shop) -> None:
    job = shop.scrape()
    assert (job["state"], job["counts"]["sent"]) == ("succeeded", 7)
    assert shop.columns() == set()
    assert "derived-from" not in {
        each["relationship_type"]
        for each in shop.sent(Topic.METADATA_EVENTS)
        if each["to_asset_id"] in {shop.asset_id("shop.mailing.address")}
    }
    [note] = job["notes"]
    assert "PUT /lily/v1/access/scraper-policies/shop" in note
    assert shop.asset_id() in note


def test_only_the_columns_the_policy_names_leave_the_source(shop: Shop) -> None:
    shop.allow("shop.orders", "shop.customers.country")
    shop.scrape()
    wanted = {f"shop.orders.{name}" for name in ("id", "customer_id", "amount", "placed_at")}
    assert shop.columns() == wanted | {"shop.customers.country"}
    shop.allow()
    job = shop.scrape()  # what is allowed now follows, although nothing changed in the database
    assert job["counts"]["sent"] == 8
    assert job["counts"]["edges"] > 0
    audited = shop.api.fetch(
        "SELECT count(*) FROM audit WHERE tenant_id = %s AND NOT allowed AND actor = 'connector:shop'",
        shop.tenant,
    )
    assert audited[0][0] >= 1


def test_an_asset_that_a_policy_forbids_is_neither_written_nor_hidden(shop: Shop) -> None:
    shop.allow()
    shop.scrape()
    for access_type in ("WRITE", "DELETE"):
        policy = {
            "role": "scraper",
            "access_type": access_type,
            "effect": "forbid",
            "scope": "asset",
            "asset_id": shop.asset_id("shop.orders"),
        }
        made = shop.api.call("POST", "/lily/v1/metadata/access-control", as_=shop.token, json=policy)
        assert made.is_success, made.text
    shop.warehouse.execute(b"COMMENT ON TABLE shop.orders IS 'x'")
    assert shop.scrape()["counts"].get("sent", 0) == 0
    shop.warehouse.execute(b"DROP TABLE shop.orders CASCADE")
    shop.scrape()
    hidden = [
        json.loads(each.value())["asset_id"]
        for each in shop.api.logged(Topic.STRUCTURAL_ASSETS)
        if b'"is_deleted":true' in each.value() and shop.tenant.encode() in each.key()
    ]
    assert shop.asset_id("shop.customer_orders") in hidden
    assert shop.asset_id("shop.orders") not in hidden


def test_a_job_is_an_event_on_the_log(shop: Shop) -> None:
    job_id = shop.order("full")
    [event] = [each for each in shop.api.logged(Topic.SCRAPING_JOBS) if job_id.encode() in each.value()]
    headers = {name: value.decode() for name, value in event.headers()}
    assert headers["ce_type"] == "io.lily.scrape.requested.v1"
    assert headers["ce_tenantid"] == shop.tenant
    assert headers["ce_actor"] == "ada"
    assert json.loads(event.value())["mode"] == "full"
    assert shop.order("full") == job_id  # what has not begun yet is not ordered twice
    assert shop.job(job_id)["state"] == "queued"


def test_who_may_not_touch_connectors_orders_nothing(shop: Shop) -> None:
    for role in ("viewer", "editor", "steward", "scraper"):
        token = shop.api.token(shop.tenant, role)
        problem(shop.api.call("POST", f"{shop.place}/scrape", as_=token), 403, "forbidden")
        problem(shop.api.call("GET", f"{shop.place}/jobs", as_=token), 403, "forbidden")
    problem(shop.api.call("POST", f"{shop.place}/scrape", as_=shop.api.token("other")), 404, "not_found")
    elsewhere = shop.place.replace(shop.tenant, "other")
    problem(shop.api.call("GET", f"{elsewhere}/jobs", as_=shop.api.token("other")), 404, "not_found")
    slack = {"type": "slack", "name": "s", "secret": "x"}
    path = f"/lily/v1/connectors/{shop.tenant}"
    made = shop.api.call("POST", path, as_=shop.token, json=slack).json()
    answer = shop.api.call("POST", f"{path}/{made['connector_id']}/scrape", as_=shop.token)
    assert "nothing to scrape" in problem(answer, 422, "invalid_input")["detail"]


def test_a_source_that_is_away_is_tried_again_and_one_that_refuses_is_not(
    module_api: Gateway, warehouse: Warehouse
) -> None:
    away = Shop(module_api, warehouse, port=9)
    job = away.scrape()
    assert (job["state"], job["attempts"]) == ("queued", 1)
    assert job["retry_at"] is not None
    assert "check host, port and network" in job["error"]
    module_api.execute("UPDATE scraping_jobs SET attempts = %s, not_before = now()", MAX_ATTEMPTS - 1)
    asyncio.run(away._run(job["job_id"]))
    assert away.job(job["job_id"])["state"] == "failed"
    refusing = Shop(module_api, warehouse, user="nobody_of_this_name")
    job = refusing.scrape()
    assert (job["state"], job["retry_at"]) == ("failed", None)
    assert "change the connector's config or secret" in job["error"]
    assert warehouse.password not in json.dumps(job)


def test_of_several_workers_one_runs_a_job_and_of_a_connectors_jobs_one_runs_at_a_time(shop: Shop) -> None:
    job_id, other_id = shop.order(), shop.order("full")

    async def race() -> tuple[list[Any], Any]:
        database = Database(shop.api.settings.database)
        await database.open()
        jobs = ScrapingJobs(database)
        claims = await asyncio.gather(*(jobs.claim(shop.tenant, job_id, uuid4()) for _ in range(8)))
        while_it_runs = await jobs.claim(shop.tenant, other_id, uuid4())
        won = [each for each in claims if each is not None]
        await jobs.finish(won[0], Ending(JobState.SUCCEEDED, {}))
        afterwards = await jobs.claim(shop.tenant, other_id, uuid4())
        await database.close()
        return [won, while_it_runs], afterwards

    [won, while_it_runs], afterwards = asyncio.run(race())
    assert len(won) == 1
    assert while_it_runs is None
    assert afterwards is not None


def test_the_job_of_a_worker_that_died_is_taken_over_and_the_dead_one_has_no_say(shop: Shop) -> None:
    job_id = shop.order()

    async def take_over() -> tuple[Any, ...]:
        database = Database(shop.api.settings.database)
        await database.open()
        jobs = ScrapingJobs(database)
        dead = await jobs.claim(shop.tenant, job_id, uuid4())
        assert dead is not None
        early = await jobs.claim(shop.tenant, job_id, uuid4())
        shop.api.execute(
            "UPDATE scraping_jobs SET leased_until = now() - interval '1 s' WHERE job_id = %s", job_id
        )
        due = (shop.tenant, job_id) in await jobs.due()
        heir = await jobs.claim(shop.tenant, job_id, uuid4())
        still = await jobs.renew(dead, {})
        await jobs.finish(dead, Ending(JobState.FAILED, {}, error="from the grave"))
        await database.close()
        return early, due, heir, still

    early, due, heir, still = asyncio.run(take_over())
    assert early is None
    assert due
    assert heir.attempt == 2
    assert not still
    assert shop.job(job_id)["state"] == "running"


def test_a_source_not_read_for_a_day_is_ordered_once_however_many_schedulers_look(shop: Shop) -> None:
    shop.api.execute("UPDATE connectors SET created_at = now() - interval '2 days'")
    settings = shop.api.settings

    async def look() -> list[int]:
        database, log = Database(settings.database), LogProducer(settings.kafka)
        await database.open()
        log.start()
        orders = Orders(log, ScrapingJobs(database))
        ordered = await asyncio.gather(*(orders.order_refreshes() for _ in range(4)))
        later = await orders.order_refreshes()
        log.close()
        await database.close()
        return [*ordered, later]

    shop.api.execute("DELETE FROM connectors WHERE tenant_id <> %s", shop.tenant)
    assert sum(asyncio.run(look())) == 1
    [job] = shop.api.call("GET", f"{shop.place}/jobs", as_=shop.token).json()["jobs"]
    assert (job["requested_by"], job["mode"]) == ("scheduler", "incremental")
    aged = (
        "UPDATE scraping_jobs SET job_id = gen_random_uuid(), state = 'succeeded', requested_at = now() - %s"
    )
    shop.api.execute(aged, REFRESH)
    assert sum(asyncio.run(look())) == 1


def test_a_worker_takes_jobs_from_the_log(shop: Shop) -> None:
    shop.allow()
    job_id = shop.order()

    async def work() -> None:
        database = Database(shop.api.settings.database)
        await database.open()
        working = asyncio.create_task(Worker(shop.api.settings, database).run())
        try:
            for _ in range(600):
                if (await asyncio.to_thread(shop.job, job_id))["state"] == "succeeded":
                    return
                await asyncio.sleep(0.05)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await database.close()

    asyncio.run(work())
    job = shop.job(job_id)
    assert (job["state"], job["counts"]["sent"]) == ("succeeded", 20)


def test_an_outside_package_is_a_source_by_its_entry_point(
    module_api: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside_source.py").write_text(
        "from lily.domain.scraping import FoundAsset\n"
        "def scrape(target):\n"
        "    said = {'by': target.secrets['secret']}\n"
        "    yield FoundAsset(target.config['root'], 'folder', 'Root', metadata=said)\n"
    )
    info = tmp_path / "outside_source-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-source\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lily.ingest]\nfolders = outside_source:scrape\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugged_in.cache_clear()
    with gateway(module_api.settings) as api:  # one that was started with the package installed
        tenant = f"t-{uuid4().hex[:8]}"
        body = {"type": "folders", "name": "files", "secret": "s", "config": {"root": "/data"}}
        token = api.token(tenant)
        made = api.call("POST", f"/lily/v1/connectors/{tenant}", as_=token, json=body)
        assert made.status_code == 201, made.text
        folders = Shop.__new__(Shop)
        folders.api, folders.tenant, folders.token, folders._read = api, tenant, token, Counter()
        folders.connector_id = made.json()["connector_id"]
        folders.place = f"/lily/v1/connectors/{tenant}/{folders.connector_id}"
        job = folders.scrape()
        assert (job["state"], job["counts"]) == ("succeeded", {"found": 1, "sent": 1})
        [said] = folders.sent(Topic.STRUCTURAL_ASSETS)
        assert (said["external_id"], said["metadata"]) == ("/data", {"by": "s"})
    sys.modules.pop("outside_source", None)
    plugged_in.cache_clear()


def test_a_source_that_breaks_fails_its_job_and_says_where_to_look(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_target: object) -> Iterator[object]:
        raise ZeroDivisionError("oops")
        yield

    monkeypatch.setattr("lily.ingest.scraping.postgres.scrape", broken)
    job = shop.scrape()
    assert job["state"] == "failed"
    assert "ZeroDivisionError: oops; see `lily logs scraper`" in job["error"]


def test_a_half_read_source_hides_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    from lily.ingest.scraping import postgres
    from lily.ingest.scraping.sources import SourceUnreachable

    shop.allow()
    shop.scrape()
    whole = postgres.scrape

    def half(target: Any) -> Iterator[Any]:
        for number, found in enumerate(whole(target)):
            if number == 5:
                raise SourceUnreachable("the line went dead")
            yield found

    monkeypatch.setattr("lily.ingest.scraping.postgres.scrape", half)
    job = shop.scrape()
    assert (job["state"], job["counts"].get("deleted", 0)) == ("queued", 0)
