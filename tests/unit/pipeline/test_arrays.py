"""The quick looks over a whole column say what a look at each text would."""

from __future__ import annotations

import re

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lily.pipeline.arrays import all_octets, controls, matches_any

_TEXTS = st.lists(st.none() | st.text(st.sampled_from("ab \0\n\x1f\x7f\x80é"), max_size=3), max_size=5)


@given(_TEXTS, st.integers(0, 5))
def test_control_characters_are_found_where_they_are(texts: list[str | None], start: int) -> None:
    array = pa.array(texts, pa.string()).slice(start)
    texts = texts[start:]
    assert controls(array).to_pylist() == [bool(re.search("[\x00-\x1f\x7f]", text or "")) for text in texts]
    assert controls(array, r"\x00").to_pylist() == ["\0" in (text or "") for text in texts]


@given(_TEXTS, st.integers(0, 5))
def test_texts_that_are_equal_are_judged_alike(texts: list[str | None], start: int) -> None:
    array = pa.array(texts, pa.string()).slice(start)
    expected = [text is not None and text.startswith("a") for text in texts[start:]]
    assert matches_any(array, "^a").to_pylist() == expected


@given(_TEXTS, st.integers(0, 5))
def test_the_octets_are_those_of_the_slice(texts: list[str | None], start: int) -> None:
    array = pa.array(texts, pa.string()).slice(start)
    assert all_octets(array).tobytes() == "".join(text or "" for text in texts[start:]).encode()


def test_a_column_of_nulls_has_no_octets() -> None:
    assert len(all_octets(pa.nulls(3, pa.string()))) == 0
