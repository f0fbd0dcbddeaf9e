"""A book changed step by step answers like one made anew from what is there."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from lily.domain.masks import Mask, MaskKind
from lily.domain.policies import Scope, ScopeKind
from lily.domain.protection import Column, Effect, Protection, Rule, applies, protections_of
from lily.serving.opa.books import Book, TableName, table_keys

NAMES = ("email", "Born")
TABLES = ("wh.s.orders", "WH.s.people", "s.orders")
columns = st.builds(
    lambda number, table, name, tags, above, source: Column(
        f"a{number}", source, f"{table}.{name}", name, "text", frozenset(tags), tags_above=frozenset(above)
    ),
    st.integers(0, 5),
    st.sampled_from(TABLES),
    st.sampled_from(NAMES),
    st.sets(st.sampled_from(["PII", "GDPR"])),
    st.sets(st.sampled_from(["PII"])),
    st.sampled_from(["pg", "wh"]),
)
rules = st.lists(
    st.builds(
        Rule,
        rule_id=st.sampled_from(["r1", "r2", "r3"]),
        tag=st.sampled_from(["PII", "GDPR"]),
        scope=st.sampled_from([Scope(ScopeKind.ALL), Scope(ScopeKind.SOURCE, "pg")]),
        includes_contained=st.booleans(),
        effect=st.sampled_from(Effect),
        mask=st.sampled_from([Mask(), Mask(MaskKind.HASH)]),
    ),
    max_size=3,
    unique_by=lambda rule: rule.rule_id,
).map(tuple)
steps = st.lists(
    st.one_of(
        columns.map(lambda column: ("put", column)),
        st.integers(0, 5).map(lambda number: ("remove", f"a{number}")),
        rules.map(lambda given_rules: ("rules", given_rules)),
    ),
    max_size=25,
)
ASKED = [TableName(c, s, t) for c in ("wh", "PG") for s in ("s", "wh") for t in ("orders", "PEOPLE", "s")]


def expected(
    found: Iterable[Column], rules_now: tuple[Rule, ...], table: TableName, name: str
) -> list[Protection]:
    named = [c for c in found if table.key in table_keys(c) and c.name.lower() == name.lower()]
    return sorted(
        (each for column in named for each in protections_of(column, rules_now)),
        key=lambda each: each.strictness,
    )


@given(steps)
def test_a_book_answers_like_one_made_anew_after_every_step(
    taken: list[tuple[str, Column | str | tuple[Rule, ...]]],
) -> None:
    book, there, in_force = Book("salt"), dict[str, Column](), tuple[Rule, ...]()
    for _, what in taken:
        if isinstance(what, Column):
            there[what.asset_id] = what
            book.put(what)
        elif isinstance(what, str):
            there.pop(what, None)
            book.remove(what)
        else:
            in_force = what
            protected = [c for c in there.values() if any(applies(rule, c) for rule in what)]
            book.set_rules(in_force, protected)
        assert book.answer("a question") is None, "what was answered before a step is not answered after it"
        book.remember("a question", b"its answer")
        assert book.answer("a question") == b"its answer"
        for table in ASKED:
            known = {c.name.lower() for c in there.values() if table.key in table_keys(c)}
            assert book.knows(table) == bool(known)
            for name in NAMES:
                assert book.knows(table, name) == (name.lower() in known)
                found = book.protections(table, name, "text")
                assert list(found) == expected(there.values(), in_force, table, name)


def test_a_column_is_found_by_its_database_and_by_its_source() -> None:
    column = Column("a", "PG", "Warehouse.Sales.Orders.Email", "Email")
    assert set(table_keys(column)) == {
        "warehouse.sales.orders",
        "pg.warehouse.sales.orders",
        "pg.sales.orders",
    }
    assert table_keys(Column("a", "hive", "sales.orders.email", "email")) == ("hive.sales.orders",)
    assert table_keys(Column("a", "hive", "email", "email")) == ()
    dotted = Column("a", "pg", "wh.s.t.first.last", "first.last")
    assert "wh.s.t" in table_keys(dotted)
    quoted = Column("a", "pg", 'wh.s."a.b"."user.email"', "user.email")
    assert TableName("wh", "s", "a.b").key in table_keys(quoted)
