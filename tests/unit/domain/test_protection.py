"""The strictest rule wins, the same one every time, and a mask never shows more than it says."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lily.domain.errors import InvalidInput
from lily.domain.masks import NULL, UNITS, Family, Mask, MaskKind, family_of, mask_document, read_mask
from lily.domain.policies import Scope, ScopeKind
from lily.domain.protection import (
    Column,
    Effect,
    Protection,
    Rule,
    applies,
    protection_for,
    protections_of,
)

TAGS, ROLES, GROUPS = ("PII", "GDPR"), ("analyst", "dpo", "support"), ("eu", "us")
TYPES = (
    "varchar(20)",
    "integer",
    "numeric(10,2)",
    "boolean",
    "date",
    "timestamp(3) with time zone",
    "jsonb",
    "",
)
SCOPES = (
    Scope(ScopeKind.ALL),
    Scope(ScopeKind.SOURCE, "pg"),
    Scope(ScopeKind.SOURCE, "other"),
    Scope(ScopeKind.CONTAINED, "orders"),
    Scope(ScopeKind.ASSET, "orders.email"),
)
masks = st.one_of(
    st.just(NULL),
    st.sampled_from(["x", "0", "7.5", "true", "2026-01-31", "99999999999"]).map(
        lambda value: Mask(MaskKind.CONSTANT, value=value)
    ),
    st.just(Mask(MaskKind.HASH)),
    st.sampled_from(UNITS).map(lambda unit: Mask(MaskKind.DATE, unit=unit)),
    st.tuples(st.integers(0, 4), st.integers(1, 4)).map(
        lambda shown: Mask(MaskKind.PARTIAL, first=shown[0], last=shown[1])
    ),
)
subsets = st.sets(st.sampled_from(ROLES), max_size=2).map(frozenset)
rules = st.builds(
    Rule,
    rule_id=st.uuids().map(str),
    tag=st.sampled_from(TAGS),
    scope=st.sampled_from(SCOPES),
    includes_contained=st.booleans(),
    effect=st.sampled_from(Effect),
    mask=masks,
    masks_by_type=st.dictionaries(st.sampled_from(Family), masks, max_size=2),
    except_roles=subsets,
    except_groups=st.sets(st.sampled_from(GROUPS), max_size=1).map(frozenset),
)
columns = st.builds(
    Column,
    asset_id=st.just("orders.email"),
    data_source=st.just("pg"),
    data_type=st.sampled_from(TYPES),
    tags=st.sets(st.sampled_from(TAGS)).map(frozenset),
    containers=st.sampled_from([frozenset(), frozenset({"orders", "sales"})]),
    tags_above=st.sets(st.sampled_from(TAGS)).map(frozenset),
)


@given(st.lists(rules, max_size=6, unique_by=lambda rule: rule.rule_id), columns, st.randoms())
def test_the_same_protections_in_the_same_order_however_the_rules_come(
    given_rules: list[Rule], column: Column, order: random.Random
) -> None:
    shuffled = list(given_rules)
    order.shuffle(shuffled)
    found = protections_of(column, given_rules)
    assert found == protections_of(column, shuffled)
    assert all(one.strictness < other.strictness for one, other in pairwise(found)), "the order is total"
    assert {each.rule_id for each in found} == {each.rule_id for each in given_rules if applies(each, column)}


@given(st.lists(rules, min_size=1, max_size=6, unique_by=lambda rule: rule.rule_id), columns, subsets)
def test_one_more_rule_never_shows_more_to_anybody(
    given_rules: list[Rule], column: Column, roles: frozenset[str]
) -> None:
    more = protection_for(protections_of(column, given_rules), roles, frozenset())
    fewer = protection_for(protections_of(column, given_rules[1:]), roles, frozenset())
    if fewer is not None:
        assert more is not None
        assert more.strictness <= fewer.strictness


@given(st.lists(rules, max_size=6, unique_by=lambda rule: rule.rule_id), columns, subsets)
def test_who_is_spared_by_one_rule_still_meets_the_others(
    given_rules: list[Rule], column: Column, roles: frozenset[str]
) -> None:
    found = protections_of(column, given_rules)
    met = protection_for(found, roles, frozenset())
    binding = [each for each in found if roles.isdisjoint(each.except_roles)]
    assert met == min(binding, key=lambda each: each.strictness, default=None)


def test_denied_comes_before_every_mask_and_null_before_every_other() -> None:
    denied = Protection("b", Effect.DENY, NULL)
    nothing = Protection("a", Effect.MASK, NULL)
    year, month = (Protection("a", Effect.MASK, Mask(MaskKind.DATE, unit=unit)) for unit in ("year", "month"))
    little, more = (Protection("a", Effect.MASK, Mask(MaskKind.PARTIAL, last=n)) for n in (2, 4))
    fixed, hashed = (Protection("a", Effect.MASK, Mask(kind)) for kind in (MaskKind.CONSTANT, MaskKind.HASH))
    ordered = [denied, nothing, fixed, hashed, year, month, little, more]
    assert all(one.strictness < other.strictness for one, other in pairwise(ordered))


@pytest.mark.parametrize(
    ("mask", "data_type", "fits"),
    [
        (Mask(MaskKind.HASH), "character varying(64)", True),
        (Mask(MaskKind.HASH), "integer", False),
        (Mask(MaskKind.PARTIAL, last=4), "text", True),
        (Mask(MaskKind.PARTIAL, last=4), "date", False),
        (Mask(MaskKind.DATE, unit="year"), "date", True),
        (Mask(MaskKind.DATE, unit="day"), "date", False),
        (Mask(MaskKind.DATE, unit="day"), "timestamp(6) with time zone", True),
        (Mask(MaskKind.DATE, unit="year"), "text", False),
        (Mask(MaskKind.CONSTANT, value="32768"), "smallint", False),
        (Mask(MaskKind.CONSTANT, value="32767"), "smallint", True),
        (Mask(MaskKind.CONSTANT, value="NaN"), "numeric", False),
        (Mask(MaskKind.CONSTANT, value="0; DROP TABLE x"), "integer", False),
        (Mask(MaskKind.CONSTANT, value="2026-01-31"), "date", True),
        (Mask(MaskKind.CONSTANT, value="20260131"), "date", False),
        (Mask(MaskKind.CONSTANT, value="hidden"), "jsonb", False),
        (Mask(MaskKind.CONSTANT, value="hidden"), "", False),
    ],
)
def test_a_mask_that_does_not_fit_the_type_shows_nothing(mask: Mask, data_type: str, fits: bool) -> None:
    assert mask.fitted(data_type) == (mask if fits else NULL)


def test_the_mask_of_the_data_type_is_taken_before_the_general_one() -> None:
    birthday = Mask(MaskKind.DATE, unit="year")
    rule = Rule("r", "PII", mask=Mask(MaskKind.HASH), masks_by_type={Family.DATE: birthday})
    assert rule.mask_for("date") == birthday
    assert rule.mask_for("varchar") == Mask(MaskKind.HASH)
    assert rule.mask_for("bigint") == NULL


def test_the_tag_of_a_table_counts_only_where_the_rule_says_so() -> None:
    column = Column("orders.email", tags_above=frozenset({"PII"}))
    assert not applies(Rule("r", "PII"), column)
    assert applies(Rule("r", "PII", includes_contained=True), column)


@given(masks)
def test_a_mask_is_read_as_it_was_written(mask: Mask) -> None:
    assert read_mask(mask_document(mask)) == mask


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        {"kind": "blur"},
        {"kind": "null", "value": "x"},
        {"kind": "constant"},
        {"kind": "constant", "value": 5},
        {"kind": "constant", "value": "x" * 257},
        {"kind": "constant", "value": "a\nb"},
        {"kind": "date"},
        {"kind": "date", "unit": "second"},
        {"kind": "partial"},
        {"kind": "partial", "first": -1, "last": 3},
        {"kind": "partial", "first": 1.5, "last": 3},
        {"kind": "partial", "first": True, "last": 3},
        {"kind": "partial", "first": 10, "last": 10},
    ],
)
def test_a_mask_that_means_nothing_is_refused(document: object) -> None:
    with pytest.raises(InvalidInput, match="/mask"):
        read_mask(document)


def test_every_type_has_a_family_whatever_its_spelling() -> None:
    assert family_of("CHARACTER  VARYING (10)") is Family.TEXT
    assert family_of("timestamp(3) without time zone") is Family.TIMESTAMP
    assert family_of("decimal(18, 2)") is Family.NUMBER
    assert family_of("array(varchar)") is Family.OTHER
