"""The delivery log over REST: what was told and what came of it, to whom may see it; and telling it again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest
from delivery_kit import message, new
from rest_kit import Gateway, gateway

from lily.domain.deliveries import NewDelivery, Outcome, Receipt, Status
from lily.repositories.postgres.deliveries import DeliveryQueues
from lily.settings import Settings

LOG = "/lily/v1/deliveries"
FAILED = Receipt(Outcome.REFUSED, "the words", 400, "HTTP 400: no")
CONNECTOR = str(uuid4())


@pytest.fixture(scope="module")
def api(shared_settings_without_log: Settings) -> Iterator[Gateway]:
    with gateway(shared_settings_without_log) as running:
        yield running


def deliver(api: Gateway, *told: NewDelivery, dead: bool = True) -> list[UUID]:
    """Have them sent and refused, or taken."""

    async def run() -> None:
        queues = DeliveryQueues(api.settings.database.url.get_secret_value())
        async with queues.running():
            queues.holder = 1
            for each in told:
                await queues.enqueue([each])
                for name in await queues.claim({}, 8, 100):
                    [(shipment, _)] = await queues.begin({name: False})
                    taken = Receipt(Outcome.DELIVERED, "the words", 200)
                    status = Status.DEAD if dead else Status.DELIVERED
                    await queues.finish(shipment, FAILED if dead else taken, status, 0.25)
                    await queues.release(name)

    asyncio.run(run())
    return [each.delivery_id for each in told]


def test_a_delivery_tells_status_latency_attempts_and_words(api: Gateway) -> None:
    [taken] = deliver(api, new(CONNECTOR, said=message(asset_id="seen")), dead=False)
    shown = api.call("GET", f"{LOG}/{taken}").json()
    assert (shown["status"], shown["attempts"], shown["rendered"]) == ("delivered", 1, "the words")
    assert shown["latency_seconds"] > 0
    assert shown["log"] == [
        {"attempt": 1, "outcome": "delivered", "status": 200, "detail": "", "seconds": 0.25}
    ]


def test_lists_are_filtered_and_come_in_pages(api: Gateway) -> None:
    connector = str(uuid4())
    ids = deliver(api, *(new(connector, said=message(asset_id=f"a{n}")) for n in range(5)))
    page = api.call("GET", LOG, params={"connector_id": connector, "status": "dead", "page_size": 3}).json()
    rest = api.call(
        "GET",
        LOG,
        params={
            "connector_id": connector,
            "status": "dead",
            "page_size": 3,
            "page_token": page["next_page_token"],
        },
    ).json()
    found = [each["delivery_id"] for each in page["deliveries"] + rest["deliveries"]]
    assert found == [str(each) for each in reversed(ids)]
    assert rest["next_page_token"] == ""
    assert (
        api.call("GET", LOG, params={"status": "pending", "connector_id": connector}).json()["deliveries"]
        == []
    )


def test_a_dead_one_is_sent_again_under_its_id(api: Gateway) -> None:
    connector = str(uuid4())
    one, other = deliver(api, new(connector), new(connector))
    assert api.call("POST", f"{LOG}/{one}/replay").json() == {"replayed": 1}
    assert api.call("GET", f"{LOG}/{one}").json()["status"] == "pending"
    assert api.call("POST", f"{LOG}/replay", params={"connector_id": connector}).json() == {"replayed": 1}
    assert api.call("GET", f"{LOG}/{other}").json()["next_attempt_at"] is not None
    assert api.call("POST", f"{LOG}/{uuid4()}/replay").status_code == 404


@pytest.mark.parametrize("role", ["viewer", "editor", "steward"])
def test_who_does_not_see_connectors_sees_no_deliveries(api: Gateway, role: str) -> None:
    token = api.token(role=role)
    assert api.call("GET", LOG, as_=token).status_code == 403
    assert api.call("POST", f"{LOG}/replay", as_=token).status_code == 403


def test_an_auditor_sees_nothing_about_assets_they_may_not_read_and_replays_nothing(api: Gateway) -> None:
    [hidden] = deliver(api, new(CONNECTOR, said=message(asset_id="hidden")))
    token = api.token(role="auditor")
    assert str(hidden) not in api.call("GET", LOG, as_=token).text
    assert api.call("GET", f"{LOG}/{hidden}", as_=token).status_code == 404
    assert api.call("POST", f"{LOG}/{hidden}/replay", as_=token).status_code == 403


def test_another_tenant_has_no_such_deliveries(api: Gateway) -> None:
    [theirs] = deliver(api, new(CONNECTOR))
    token = api.token(tenant="other")
    assert api.call("GET", LOG, as_=token).json()["deliveries"] == []
    assert api.call("GET", f"{LOG}/{theirs}", as_=token).status_code == 404
    assert api.call("POST", f"{LOG}/{theirs}/replay", as_=token).status_code == 404
