"""The asset's own rules."""

from __future__ import annotations

import pytest

from lily.domain.assets import ALL_FIELDS, Field, Lane, derive_asset_id


def test_a_derived_id_is_the_same_every_time() -> None:
    assert derive_asset_id("shop", "orders") == derive_asset_id("shop", "orders")
    assert derive_asset_id("shop", "orders") == "4c659c3d-3f50-51fc-839f-4c562d50520f"


def test_two_assets_never_share_a_derived_id_by_where_the_cut_is() -> None:
    assert derive_asset_id("shop", "a.b") != derive_asset_id("shop.a", "b")
    assert derive_asset_id("a", "b") != derive_asset_id("b", "a")


@pytest.mark.parametrize("asset_type", ["column", "bi_field", "field"])
def test_what_comes_by_the_million_takes_the_leaf_lane(asset_type: str) -> None:
    assert Lane.of(asset_type) is Lane.LEAF


@pytest.mark.parametrize("asset_type", ["table", "database", "dashboard", "", "Column"])
def test_everything_else_is_structural(asset_type: str) -> None:
    assert Lane.of(asset_type) is Lane.STRUCTURAL


def test_the_stored_numbers_of_the_fields_never_change() -> None:
    assert {field.name: int(field) for field in Field} == {
        "ASSET_NAME": 1,
        "ASSET_TYPE": 2,
        "ASSET_OWNER": 4,
        "DESCRIPTION": 8,
        "DATA_SOURCE": 16,
        "EXTERNAL_ID": 32,
        "BUSINESS_TERMS": 64,
        "SOURCE_TAGS": 128,
        "USER_TAGS": 256,
        "METADATA": 512,
        "IS_DELETED": 1024,
    }
    assert ALL_FIELDS == 2047
