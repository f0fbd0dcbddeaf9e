"""The merge against its reference model, on random events in random order, split into random batches."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.databases import Databases
from kit.events import at
from kit.model import Change, Event, Model, purge
from kit.staging import Catalog
from lily.domain.assets import Field

_TAGS = st.sampled_from([None, [], ["pii"], ["gdpr", "pii"]])
_VALUES: dict[Field, st.SearchStrategy[Any]] = {
    Field.ASSET_NAME: st.sampled_from(["orders", "Orders", "заказы", None]),
    Field.ASSET_TYPE: st.sampled_from(["table", "view"]),
    Field.ASSET_OWNER: st.sampled_from([None, "ada", "bob"]),
    Field.DESCRIPTION: st.sampled_from([None, "", "all orders"]),
    Field.DATA_SOURCE: st.sampled_from([None, "shop"]),
    Field.EXTERNAL_ID: st.sampled_from([None, "shop.orders"]),
    Field.BUSINESS_TERMS: _TAGS,
    Field.SOURCE_TAGS: _TAGS,
    Field.USER_TAGS: _TAGS,
    Field.METADATA: st.sampled_from([None, {}, {"rows": 1}, {"rows": 2, "a": [1, {"b": None}]}]),
    Field.IS_DELETED: st.sampled_from([None, True, False]),
}
#: Few of each, so that the same asset, time and value meet often.
_ASSETS = st.sampled_from(["orders", "customers"])
_TIMES = st.sampled_from([at(0), at(1), at(1) + timedelta(microseconds=1), at(2)])
_IDS = st.integers(0, 2**128 - 1).map(lambda number: UUID(int=number))


@st.composite
def _events(draw: st.DrawFn) -> Event:
    event_id, event_time, asset_id = draw(_IDS), draw(_TIMES), draw(_ASSETS)
    if draw(st.integers(0, 9)) == 0:
        return purge(event_id, event_time, asset_id)
    said = draw(st.fixed_dictionaries({}, optional=_VALUES))
    return Event(event_id, event_time, asset_id, said, created_at=draw(st.none() | _TIMES))


_HISTORIES = st.lists(_events(), min_size=1, max_size=8, unique_by=lambda event: event.event_id)


@dataclass(frozen=True)
class Delivery:
    """The batches in which the events arrive: any order, any number of times, cut anywhere."""

    batches: list[list[Event]]


def deliver(events: list[Event], chance: random.Random) -> Delivery:
    arriving = events + chance.choices(events, k=chance.randint(0, 3))
    chance.shuffle(arriving)
    cuts = sorted(chance.sample(range(1, len(arriving) + 1), k=min(chance.randint(0, 3), len(arriving))))
    edges = [0, *cuts, len(arriving)]
    batches = [arriving[start:end] for start, end in itertools.pairwise(edges)]
    return Delivery([batch for batch in batches if batch])


@pytest.fixture(scope="module")
def shared(databases: Databases) -> Iterator[Catalog]:
    """One database for all examples: each has a tenant of its own."""
    catalog = Catalog(databases.create())
    yield catalog
    catalog.close()


_tenants = (f"tenant-{number}" for number in itertools.count())


def check(catalog: Catalog, delivery: Delivery) -> dict[str, Any]:
    """Apply a delivery to a new tenant and to the model; returns the final state without versions."""
    tenant, model = next(_tenants), Model()
    for batch in delivery.batches:
        catalog.apply(*batch, tenant=tenant)
        for event in batch:
            model.apply(event)
        assert catalog.rows(tenant) == model.rows()
    changes = catalog.changes(tenant)
    assert len(changes) == len({change.event_id for change in changes})
    assert {change.event_id: change for change in changes} == model.changes
    assert_versions_count_up(delivery, changes)
    return {asset_id: row | {"version": None} for asset_id, row in catalog.rows(tenant).items()}


def assert_versions_count_up(delivery: Delivery, changes: list[Change]) -> None:
    """Every change of an asset has the version before it or the next one."""
    asset_of = {event.event_id: event.asset_id for batch in delivery.batches for event in batch}
    versions = dict.fromkeys(asset_of.values(), 0)
    for change in changes:
        assert change.version - versions[asset_of[change.event_id]] in (0, 1)
        versions[asset_of[change.event_id]] = change.version


@given(events=_HISTORIES, seed=st.integers(0, 2**32))
def test_any_order_repetition_and_batching_ends_in_the_state_of_the_model(
    shared: Catalog, events: list[Event], seed: int
) -> None:
    chance = random.Random(seed)
    in_order = check(shared, Delivery([events]))
    shuffled = check(shared, deliver(events, chance))
    assert in_order == shuffled


@given(
    events=st.lists(
        st.builds(
            lambda event, expected: Event(
                event.event_id, event.event_time, event.asset_id, event.said, event.created_at, expected
            ),
            _events(),
            st.none() | st.integers(0, 3),
        ),
        min_size=1,
        max_size=6,
        unique_by=lambda event: event.event_id,
    ),
    seed=st.integers(0, 2**32),
)
def test_events_that_expect_a_version_are_applied_or_refused_as_the_model_does(
    shared: Catalog, events: list[Event], seed: int
) -> None:
    check(shared, deliver(events, random.Random(seed)))
