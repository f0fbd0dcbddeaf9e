"""External ids tell apart whatever has different names, and tell which."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lily.domain.external_ids import names_in, qualified

NAMES = st.lists(st.text(alphabet='ab." ', min_size=1), min_size=1, max_size=4)


@given(NAMES)
def test_an_external_id_tells_the_names_it_was_made_of(names: list[str]) -> None:
    assert names_in(qualified(*names)) == tuple(names)


def test_a_plain_id_is_split_at_its_dots() -> None:
    assert names_in("shop.public.orders.email") == ("shop", "public", "orders", "email")
    assert names_in('shop."half') == ("shop", '"half')
