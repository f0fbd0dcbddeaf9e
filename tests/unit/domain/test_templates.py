"""Templates are looked up, never evaluated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lily.domain.errors import InvalidInput
from lily.domain.templates import PLACEHOLDERS, check_template, render


@given(st.dictionaries(st.sampled_from(sorted(PLACEHOLDERS)), st.text()))
def test_what_a_value_contains_stays_text(values: dict[str, str]) -> None:
    template = " | ".join(f"{{{name}}}" for name in PLACEHOLDERS)
    assert render(check_template(template), values) == " | ".join(
        values.get(name, "") for name in PLACEHOLDERS
    )


@pytest.mark.parametrize(
    "template",
    [
        "{unknown}",
        "{asset_name.__class__}",
        "{asset_name!r}",
        "{asset_name:>1000000000}",
        "{0}",
        "{}",
        "{{asset_name}}",
        "{% for x in y %}",
        "${asset_name",
        "a } b",
    ],
)
def test_a_brace_that_is_no_known_placeholder_is_refused(template: str) -> None:
    with pytest.raises(InvalidInput, match="placeholder"):
        check_template(template)
