"""An event id tells which member of how large a batch it is."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lily.domain.event_ids import MAX_BATCH, batch_id_from_key, last_member, members, new_batch_id, size_of

SIZES = st.integers(1, MAX_BATCH)
NOW = st.integers(0, 2**48 - 1)


@given(now=NOW, size=SIZES)
def test_the_members_of_a_batch_are_as_many_as_its_size_and_in_order(now: int, size: int) -> None:
    batch_id = new_batch_id(now, size)
    ids = list(members(batch_id))
    assert len(ids) == size == size_of(batch_id)
    assert ids == sorted(set(ids))
    assert (ids[0], ids[-1]) == (batch_id, last_member(batch_id))


@given(now=NOW, size=SIZES, index=st.integers(0, MAX_BATCH - 1))
def test_every_member_knows_its_whole_batch(now: int, size: int, index: int) -> None:
    ids = list(members(new_batch_id(now, size)))
    member = ids[index % size]
    assert list(members(member)) == ids
    assert last_member(member) == ids[-1]


@given(now=NOW, size=SIZES)
def test_an_id_is_a_uuid_of_version_7_that_starts_with_its_time(now: int, size: int) -> None:
    batch_id = new_batch_id(now, size)
    assert (batch_id.version, batch_id.variant) == (7, "specified in RFC 4122")
    assert batch_id.int >> 80 == now


@given(key=st.text(max_size=40), size=SIZES)
def test_an_idempotency_key_makes_the_same_id_every_time(key: str, size: int) -> None:
    batch_id = batch_id_from_key("acme/ada", key, size)
    assert batch_id == batch_id_from_key("acme/ada", key, size)
    assert batch_id.version == 8
    assert size_of(batch_id) == size


def test_another_scope_or_key_makes_another_id() -> None:
    made = {batch_id_from_key(scope, key) for scope in ("a", "b") for key in ("1", "2")}
    assert len(made) == 4


def test_two_new_batches_share_no_member() -> None:
    first, second = (set(members(new_batch_id(1, MAX_BATCH))) for _ in range(2))
    assert not first & second


@pytest.mark.parametrize("size", [0, MAX_BATCH + 1])
def test_a_batch_of_no_or_too_many_events_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="1 to 1024"):
        new_batch_id(0, size)


def test_the_nil_uuid_is_a_batch_of_one() -> None:
    assert list(members(UUID(int=0))) == [UUID(int=0)]
