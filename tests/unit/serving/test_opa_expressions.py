"""A mask in Trino's SQL is of the column's type, and what it is made of stays a value."""

from __future__ import annotations

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import expressions as exp

from lily.domain.masks import Mask, MaskKind
from lily.serving.opa.expressions import mask_expression

SALT = "5a17"
HASH = Mask(MaskKind.HASH)


def test_masks_are_written_as_trino_understands_them() -> None:
    assert mask_expression(Mask(), "email", "varchar", SALT) == "NULL"
    assert mask_expression(HASH, "email", "varchar(10)", SALT) == (
        "CAST(lower(to_hex(sha256(to_utf8('5a17' || CAST(\"email\" AS varchar))))) AS varchar(10))"
    )
    year = Mask(MaskKind.DATE, unit="year")
    assert mask_expression(year, "born", "date", SALT) == "CAST(date_trunc('year', \"born\") AS date)"
    assert mask_expression(year, "at", "timestamp(3) with time zone", SALT) == (
        "CAST(date_trunc('year', \"at\") AS timestamp(3) with time zone)"
    )
    constant = Mask(MaskKind.CONSTANT, value="7")
    assert mask_expression(constant, "n", "decimal(10, 2)", SALT) == "TRY_CAST('7' AS decimal(10, 2))"
    part = Mask(MaskKind.PARTIAL, first=1, last=4)
    text = 'CAST("email" AS varchar)'
    assert mask_expression(part, "email", "char(9)", SALT) == (
        f"CAST(CASE WHEN {text} IS NULL THEN NULL WHEN length({text}) > 5 THEN substr({text}, 1, 1)"
        f" || '*****' || substr({text}, -4) ELSE '*****' END AS char(9))"
    )


@pytest.mark.parametrize(
    "data_type", ["integer", "array(varchar)", "row(a varchar)", "", "uuid", "varbinary"]
)
def test_nothing_is_shown_where_the_mask_does_not_fit(data_type: str) -> None:
    assert mask_expression(HASH, "email", data_type, SALT) == "NULL"


@pytest.mark.parametrize(
    "data_type",
    ["varchar) OR (1=1", "varchar(10); DROP TABLE x", "varchar -- ", 'varchar("x")', "varchar(1,2,3)"],
)
def test_a_type_that_is_none_is_not_repeated(data_type: str) -> None:
    assert mask_expression(HASH, "email", data_type, SALT) == "NULL"


hostile = st.text(st.sampled_from("ab'\"\\;-/*() é"), min_size=1, max_size=12)


@given(
    name=hostile, value=hostile, kind=st.sampled_from([MaskKind.HASH, MaskKind.CONSTANT, MaskKind.PARTIAL])
)
def test_names_and_values_stay_what_they_are(name: str, value: str, kind: MaskKind) -> None:
    mask = Mask(kind, value=value, first=1) if kind is not MaskKind.HASH else HASH
    [statement] = sqlglot.parse(f"SELECT {mask_expression(mask, name, 'varchar', value)}", read="trino")
    assert isinstance(statement, exp.Select)
    assert len(statement.expressions) == 1
    assert {column.name for column in statement.find_all(exp.Column)} <= {name}
    literals = {each.this for each in statement.find_all(exp.Literal) if each.is_string}
    assert literals <= {value, "*****", "utf-8"}  # the last is the parser's own word for to_utf8
    assert "from" not in statement.args or statement.args["from"] is None
