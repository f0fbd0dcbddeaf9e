"""Protection over Trino's OPA protocol: from memory, and closed when that may not be right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from identity_kit import KEYS
from rest_kit import Gateway, gateway

from kit.eventually import eventually
from kit.told import tell, told
from kit.trino import QueryRefused, Trino, column_of, table_of
from lily.domain.changes import ChangeKind
from lily.serving.live import feeds
from lily.settings import KafkaSettings, Settings

RULES = "/lily/v1/protection/rules"
ORDERS = table_of("warehouse", "sales", "orders", "id", "email", "born")
PLACE = "warehouse.sales.orders"


@pytest.fixture(scope="module")
def running(shared_settings: Settings) -> Iterator[Gateway]:
    with gateway(shared_settings) as started:
        yield started


class Warehouse:
    """A tenant of its own with one table, a gateway and a Trino that asks it."""

    def __init__(self, api: Gateway) -> None:
        self.api, self.tenant = api, f"t{uuid4().hex[:12]}"
        self.trino = Trino(api.client, api.token(self.tenant, "engine"))
        self.add_table("warehouse", "sales", "orders", {"id": "bigint", "email": "text", "born": "date"})

    def add_table(self, database: str, schema: str, table: str, columns: dict[str, str]) -> None:
        place = f"{database}.{schema}.{table}"
        self.store(place, "table", table)
        for name, data_type in columns.items():
            self.store(f"{place}.{name}", "column", name, data_type)
            self.api.insert(
                "edges", self.mine(from_id=place, to_id=f"{place}.{name}", relationship_type="contains")
            )

    def store(self, external_id: str, asset_type: str, name: str, data_type: str = "") -> None:
        self.api.stored(
            tenant_id=self.tenant,
            asset_id=external_id,
            asset_type=asset_type,
            asset_name=name,
            external_id=external_id,
            data_source="pg",
            metadata=f'{{"data_type": "{data_type}"}}',
        )

    def tag(self, asset_id: str, name: str = "PII") -> None:
        fact = self.mine(asset_id=asset_id, tag=name, is_partial=False, is_asserted=True)
        self.api.insert("effective_tags", fact | {"since": "2026-01-01", "cause": str(uuid4())})
        self.say(asset_id, ChangeKind.TAGS)

    def untag(self, asset_id: str) -> None:
        statement = "DELETE FROM effective_tags WHERE tenant_id = %s AND asset_id = %s"
        self.api.execute(statement, self.tenant, asset_id)
        self.say(asset_id, ChangeKind.TAGS)

    def say(self, asset_id: str, kind: ChangeKind = ChangeKind.ASSET, **more: Any) -> None:
        tell(self.api.settings.kafka, told(asset_id, kind, self.tenant, **more))

    def rule(self, **body: Any) -> str:
        owner = self.api.token(self.tenant)
        answer = self.api.call("POST", RULES, as_=owner, json={"tag": "PII"} | body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["rule_id"])

    def mine(self, **row: Any) -> dict[str, Any]:
        return {"tenant_id": self.tenant} | row

    def masks(self, user: str = "ana", *groups: str) -> dict[str, str]:
        return self.trino.select(user, ORDERS, groups)


@pytest.fixture
def house(running: Gateway) -> Warehouse:
    return Warehouse(running)


def test_an_unprotected_table_is_read_as_it_is(house: Warehouse) -> None:
    assert house.masks() == {}
    assert house.trino.column_mask("ana", column_of(ORDERS, "email")) is None
    assert house.trino.row_filters("ana", table_of("warehouse", "sales", "orders")) == []


def test_a_tagged_column_is_masked_and_an_untagged_one_again_as_it_was(house: Warehouse) -> None:
    house.rule(mask={"kind": "constant", "value": "it's hidden"})
    assert house.masks() == {}
    house.tag(f"{PLACE}.email")
    hidden = {"email": "CAST('it''s hidden' AS varchar)"}
    eventually(lambda: house.masks() == hidden)
    assert house.trino.column_mask("ana", column_of(ORDERS, "email")) == hidden["email"]
    house.untag(f"{PLACE}.email")
    eventually(lambda: house.masks() == {})


def test_a_rule_is_in_force_when_its_change_is_answered(house: Warehouse) -> None:
    house.tag(f"{PLACE}.email")
    assert house.masks() == {}
    rule_id = house.rule()
    assert house.masks() == {"email": "NULL"}
    path = f"{RULES}/{rule_id}"
    owner = house.api.token(house.tenant)
    house.api.call("PUT", path, as_=owner, json={"tag": "PII", "mask": {"kind": "constant", "value": "x"}})
    assert house.masks() == {"email": "CAST('x' AS varchar)"}
    assert house.api.call("DELETE", path, as_=owner).status_code == 204
    assert house.masks() == {}


def test_a_denied_column_is_refused_hidden_and_shows_nothing(house: Warehouse) -> None:
    house.tag(f"{PLACE}.email")
    house.rule(effect="deny")
    with pytest.raises(QueryRefused, match="SelectFromColumns"):
        house.masks()
    assert house.trino.select("ana", table_of("warehouse", "sales", "orders", "id")) == {}
    assert house.trino.filter_columns("ana", ORDERS) == ["id", "born"]
    assert house.trino.column_mask("ana", column_of(ORDERS, "email")) == "NULL"


def test_the_mask_follows_the_type_the_engine_has(house: Warehouse) -> None:
    for name in ("id", "email", "born"):
        house.tag(f"{PLACE}.{name}")
    house.rule(mask={"kind": "hash"}, masks_by_type={"date": {"kind": "date", "unit": "month"}})
    types = {"id": "bigint", "email": "varchar(20)", "born": "date"}
    found = house.trino.column_masks("ana", [column_of(ORDERS, *each) for each in types.items()])
    assert found["id"] == "NULL"
    assert found["born"] == "CAST(date_trunc('month', \"born\") AS date)"
    assert found["email"].startswith("CAST(lower(to_hex(sha256(")


def test_roles_and_groups_spare_whom_the_rule_spares(house: Warehouse) -> None:
    house.tag(f"{PLACE}.email")
    house.rule(except_groups=["dpo"], except_roles=["support"])
    assert house.masks("ana") == {"email": "NULL"}
    assert house.masks("ana", "dpo") == {}
    assert house.masks("ana", "Dpo", "other") == {"email": "NULL"}
    house.api.insert("users", house.mine(user_name="sue", roles=["support"]))
    assert house.masks("sue") == {}
    assert house.masks("SUE") == {}, "names of people do not differ by case"


def test_groups_are_those_of_the_directory_when_the_engine_tells_none(house: Warehouse) -> None:
    house.tag(f"{PLACE}.email")
    house.rule(except_groups=["dpo"])
    owner = house.api.token(house.tenant)
    person = house.api.call("POST", "/scim/v2/Users", as_=owner, **scim("User", userName="gil")).json()
    assert house.masks("gil") == {"email": "NULL"}
    member = [{"value": person["id"]}]
    group = scim("Group", displayName="dpo", members=member)
    assert house.api.call("POST", "/scim/v2/Groups", as_=owner, **group).status_code == 201
    assert house.masks("gil") == {}
    assert house.masks("gil", "analysts") == {"email": "NULL"}, "what the engine tells is taken as it is"


def test_who_was_deactivated_reads_nothing(house: Warehouse) -> None:
    house.api.insert("users", house.mine(user_name="sue", roles=["viewer"], active=False))
    with pytest.raises(QueryRefused, match="ExecuteQuery"):
        house.masks("sue")
    assert house.trino.column_mask("sue", column_of(ORDERS, "id")) == "NULL"
    assert (
        house.trino.filter("sue", "FilterTables", [{"table": table_of("warehouse", "sales", "orders")}]) == []
    )


def test_the_strictest_rule_wins_and_each_index_comes_once(house: Warehouse) -> None:
    house.tag(f"{PLACE}.email")
    house.tag(f"{PLACE}.email", "GDPR")
    house.rule(mask={"kind": "partial", "last": 4})
    house.rule(tag="GDPR", mask={"kind": "constant", "value": "x"})
    assert house.masks() == {"email": "CAST('x' AS varchar)"}


def test_a_table_of_the_same_name_in_two_sources_is_protected_by_either(house: Warehouse) -> None:
    house.store("other.sales.orders.email", "column", "email", "text")
    house.rule()
    house.tag("other.sales.orders.email")
    by_source = table_of("pg", "sales", "orders", "email")
    eventually(lambda: house.trino.select("ana", by_source) == {"email": "NULL"})
    assert house.trino.select("ana", table_of("other", "sales", "orders", "email")) == {"email": "NULL"}
    assert house.masks() == {}


def test_case_does_not_matter(house: Warehouse) -> None:
    house.tag(f"{PLACE}.email")
    house.rule(effect="deny")
    for table in ("ORDERS", "Orders"):
        with pytest.raises(QueryRefused):
            house.trino.select("ana", table_of("Warehouse", "SALES", table, "EMAIL"))


def test_what_lily_does_not_know_is_refused_unless_told_otherwise(house: Warehouse) -> None:
    for table in (
        table_of("warehouse", "sales", "new", "id"),
        table_of("warehouse", "sales", "orders", "ssn"),
    ):
        with pytest.raises(QueryRefused, match="SelectFromColumns"):
            house.trino.select("ana", table)
        assert house.trino.column_mask("ana", column_of(table, table["columns"][0])) == "NULL"
        lenient = replace(house.trino, options="?unknown=allow")
        assert lenient.select("ana", table) == {}
    assert house.trino.row_filters("ana", table_of("warehouse", "sales", "new")) == ["false"]
    assert (
        house.trino.select("ana", table_of("warehouse", "information_schema", "tables", "table_name")) == {}
    )


def test_a_new_column_is_known_once_it_is_told_and_a_deleted_one_is_not(house: Warehouse) -> None:
    table = table_of("warehouse", "sales", "orders", "phone")
    with pytest.raises(QueryRefused):
        house.trino.select("ana", table)
    house.store(f"{PLACE}.phone", "column", "phone", "text")
    house.say(f"{PLACE}.phone", outcome="created")
    eventually(lambda: house.trino.select("ana", table) == {}, ignoring=(QueryRefused,))
    house.api.execute(
        "UPDATE assets SET is_deleted = true WHERE tenant_id = %s AND asset_name = 'phone'", house.tenant
    )
    house.say(f"{PLACE}.phone", outcome="deleted")

    def is_refused() -> bool:
        return not house.trino.allow("ana", "SelectFromColumns", {"table": table})

    eventually(is_refused)


def test_ways_around_a_mask_are_closed(house: Warehouse) -> None:
    house.tag(f"{PLACE}.email")
    house.rule(except_groups=["dpo"])
    allow, place = house.trino.allow, {"table": table_of("warehouse", "sales", "orders", "email")}
    view = "CreateViewWithSelectFromColumns"
    assert allow("ana", view, place), "a view of what is masked shows what is masked"
    assert not allow("ana", view, place, ["dpo"]), "a view would show everybody what its owner sees"
    assert not allow("ana", "RenameTable", place)
    assert not allow("ana", "RenameColumn", place)
    assert not allow("ana", "RenameSchema", {"schema": {"catalogName": "warehouse", "schemaName": "sales"}})
    assert allow("ana", "RenameSchema", {"schema": {"catalogName": "warehouse", "schemaName": "hr"}})
    query = {"catalogName": "warehouse", "schemaName": "system", "functionName": "query"}
    assert not allow("ana", "ExecuteFunction", {"function": query})
    assert allow("ana", "ExecuteFunction", {"function": query | {"functionName": "count"}})
    assert not allow("ana", "ImpersonateUser", {"user": {"user": "gil"}})
    assert not allow("ana", "ViewQueryOwnedBy", {"user": {"user": "gil"}})
    assert not allow("ana", "SomethingNew", place)
    assert allow("ana", "CreateTable", place)


def test_a_procedure_of_a_source_with_protected_columns_is_for_privileged_roles(house: Warehouse) -> None:
    house.add_table("plain", "s", "t", {"id": "bigint"})
    house.tag(f"{PLACE}.email")
    house.rule()

    def may_call(user: str, catalog: str, trino: Trino = house.trino) -> bool:
        procedure = {"catalogName": catalog, "schemaName": "system", "functionName": "execute"}
        return trino.allow(user, "ExecuteProcedure", {"function": procedure})

    assert not may_call("ana", "warehouse")
    assert not may_call("ana", "PG"), "the source's name is another name of its database"
    assert may_call("ana", "plain")
    assert may_call("ana", "system"), "it is the engine's own"
    assert not may_call("ana", "elsewhere"), "nobody knows what is there"
    assert may_call("ana", "elsewhere", replace(house.trino, options="?unknown=allow"))
    assert not house.trino.allow("ana", "ExecuteProcedure")
    house.api.insert("users", house.mine(user_name="sue", roles=["owner"]))
    assert may_call("sue", "warehouse")


def test_queries_are_seen_by_who_runs_them_and_by_privileged_roles(house: Warehouse) -> None:
    house.api.insert("users", house.mine(user_name="sue", roles=["owner"]))
    queries = [{"user": {"user": name, "groups": []}} for name in ("ana", "gil")]
    assert house.trino.filter("ana", "FilterViewQueryOwnedBy", queries) == queries[:1]
    assert house.trino.filter("sue", "FilterViewQueryOwnedBy", queries) == queries
    for operation in ("ViewQueryOwnedBy", "FilterViewQueryOwnedBy"):
        assert [house.trino.allow("ana", operation, each) for each in queries] == [True, False]
        assert not house.trino.allow("ana", operation)


def test_only_an_engine_asks_and_only_about_its_own_tenant(house: Warehouse) -> None:
    house.tag(f"{PLACE}.email")
    house.rule()
    for role in ("viewer", "editor", "scraper", "auditor", "steward"):
        with pytest.raises(QueryRefused, match="403"):
            replace(house.trino, token=house.api.token(house.tenant, role)).allow("ana", "ExecuteQuery")
    with pytest.raises(QueryRefused, match="401"):
        replace(house.trino, token="").allow("ana", "ExecuteQuery")
    other = replace(house.trino, token=house.api.token(f"{house.tenant}x", "engine"))
    assert not other.allow("ana", "SelectFromColumns", {"table": ORDERS}), (
        "another tenant knows no such table"
    )
    problem = house.api.call("GET", RULES, as_=house.trino.token)
    assert problem.status_code == 403, "an engine asks, and nothing else"


def test_an_api_key_of_the_role_engine_asks(house: Warehouse) -> None:
    owner = house.api.token(house.tenant)
    made = house.api.call("POST", KEYS, as_=owner, json={"name": "trino", "roles": ["engine"]})
    assert made.status_code == 201, made.text
    assert replace(house.trino, token=made.json()["api_key"]).select("ana", ORDERS) == {}


def test_refusals_are_audited_and_questions_are_not(house: Warehouse) -> None:
    house.tag(f"{PLACE}.email")
    house.rule(effect="deny")
    assert house.trino.allow("ana", "ExecuteQuery")
    assert not house.trino.allow("ana", "SelectFromColumns", {"table": ORDERS})

    def entries() -> list[Any]:
        return house.api.fetch(
            "SELECT resource_kind, resource_id FROM audit WHERE tenant_id = %s", house.tenant
        )

    eventually(lambda: ("SelectFromColumns", f"{PLACE}(id, email, born)") in entries())
    assert "route" not in {kind for kind, _ in entries()}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"input": {}},
        {"input": {"context": {"identity": {"user": ""}}, "action": {"operation": "x"}}},
        {"input": {"context": {"identity": {"user": "a\x00"}}, "action": {"operation": "x"}}},
    ],
)
def test_a_question_that_cannot_be_read_is_refused(house: Warehouse, body: Any) -> None:
    for path in ("allow", "batch", "rowFilters", "columnMask", "batchColumnMasks"):
        answer = house.api.call("POST", f"/v1/data/trino/{path}", as_=house.trino.token, json=body)
        assert answer.status_code == 422


def test_without_the_log_nothing_is_allowed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "_START_SECONDS", 1.0)
    nowhere = settings.model_copy(update={"kafka": KafkaSettings(bootstrap_servers="127.0.0.1:9")})
    with gateway(nowhere) as api:
        house = Warehouse(api)
        with pytest.raises(QueryRefused, match="503"):
            house.trino.allow("ana", "ExecuteQuery")


def scim(kind: str, **document: Any) -> dict[str, Any]:
    schema = f"urn:ietf:params:scim:schemas:core:2.0:{kind}"
    return {"json": {"schemas": [schema], **document}, "headers": {"content-type": "application/scim+json"}}
