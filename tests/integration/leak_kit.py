"""What each interface shows to a caller, as names that can be compared with what a model allows.

A new interface is one entry of INTERFACES: what it shows, and which of the model's sets that must be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_OID, uuid4, uuid5

import grpc
import psycopg
from access_kit import BEFORE, FRESH, GUARDED, delivery_id
from live_kit import missed
from rest_kit import ASSETS, Gateway, grpc_ask, grpc_decide

from kit import access_strategies as some
from lily.access.decisions import Resource
from lily.access.principals import Principal
from lily.serving.classification import REDACTED
from lily.serving.grpc import access_pb2, lineage_pb2, metadata_pb2

LINEAGE = f"{ASSETS}/lineage"
CLASSIFICATION = f"{ASSETS}/governance/classification"
INCIDENTS, DELIVERIES = "/lily/v1/incidents", "/lily/v1/deliveries"
NOTIFICATIONS, COLUMNS = "/lily/v1/notifications", "/lily/v1/protection/columns"
_lineage: Any = lineage_pb2
_metadata: Any = metadata_pb2

#: What the model knows: versions of assets, edges, pairs on a way, and what kinds of things add to that.
NOW, PAST, EDGES, WAYS = "now", "before", "edges", "ways"
DELIVERED, PROTECTED, PREVIEWED = "delivered", "protected", "previewed"

_INSERT_NOTIFICATION = b"""
INSERT INTO notifications (tenant_id, notification_id, recipient, group_key, first_at, last_at, message,
                           asset_id, state, count)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, 'new', 1) ON CONFLICT DO NOTHING
"""
_INSERT_CAUSE = b"""
INSERT INTO notification_causes (tenant_id, notification_id, subscription_id, asset_id, path, applied_at,
                                 cause_key, change, event_id, reason)
VALUES (%s, %s, %s, %s, %s, %s, gen_random_uuid()::text, 'updated', '', '')
"""

Shown = Callable[["Caller"], set[str]]


@dataclass(frozen=True)
class Caller:
    """Somebody at the gateway."""

    api: Gateway
    who: Principal
    token: str
    purpose: str

    def get(self, path: str, **query: str) -> Any:
        answer = self.api.call("GET", path, as_=self.token, headers=self.headers, params=query)
        assert answer.status_code in (200, 403, 404), answer.text
        return answer.json() if answer.status_code == 200 else None

    def post(self, path: str, body: Any) -> Any:
        answer = self.api.call("POST", path, as_=self.token, headers=self.headers, json=body)
        assert answer.status_code in (200, 403, 404), answer.text
        return answer.json() if answer.status_code == 200 else None

    def ask(self, method: str, request: Any, gives: Any) -> Any:
        """What gRPC answers; None when that is a refusal."""
        try:
            return grpc_ask(self.api, method, request, gives, self.token, self.purpose)
        except grpc.RpcError as refused:
            if refused.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED):
                return None
            raise

    @property
    def headers(self) -> dict[str, str]:
        return {"lily-purpose": self.purpose} if self.purpose else {}

    def name(self, asset_id: str) -> str:
        return f"{self.who.tenant_id}:{asset_id}@now"

    def edge(self, from_id: str, to_id: str) -> str:
        return f"{self.who.tenant_id}:{from_id} > {to_id}"

    def edges(self, shown: Iterable[dict[str, str]]) -> set[str]:
        return {self.edge(each["from_asset_id"], each["to_asset_id"]) for each in shown}


def each(path: str, name: Callable[[Any], list[str]], **query: str) -> Shown:
    """What is shown when every asset is asked for by its id."""

    def shown(caller: Caller) -> set[str]:
        answers = (caller.get(path.format(quote(asset, safe="")), **query) for asset in some.ASSETS)
        return {text for answer in answers if answer for text in name(answer)}

    return shown


def listed(caller: Caller) -> set[str]:
    names, token = set(), ""
    while True:
        page = caller.get(ASSETS, page_size="3", page_token=token, deleted="any")
        if page is None:
            return names
        names |= {asset["asset_name"] for asset in page["assets"]}
        token = page["next_page_token"]
        if not token:
            return names


def decided(caller: Caller) -> set[str]:
    asked = [{"action": "READ", "asset_id": asset} for asset in (*some.ASSETS, "unknown")]
    answers = caller.post("/lily/v1/access/decisions", {"decisions": asked})["decisions"]
    pairs = zip(asked, answers, strict=True)
    return {caller.name(question["asset_id"]) for question, answer in pairs if answer["allowed"]}


def decided_over_grpc(caller: Caller) -> set[str]:
    asked = [access_pb2.Question(action="READ", asset_id=asset) for asset in (*some.ASSETS, "unknown")]
    answer = grpc_decide(caller.api, caller.token, asked, purpose=caller.purpose)
    pairs = zip(asked, answer.decisions, strict=True)
    return {caller.name(question.asset_id) for question, decision in pairs if decision.allowed}


#: Where the log was in each tenant before a change of every asset was told.
CURSORS: dict[str, str] = {}


def told_live(caller: Caller) -> set[str]:
    found = missed(caller.api, caller.token, CURSORS[caller.who.tenant_id], headers=caller.headers)
    return {caller.name(asset) for asset in found}


def notified(caller: Caller) -> set[str]:
    """What is shown to somebody who once was told of every asset, because of what contains it."""
    _tell(caller)
    page, shown = caller.get(NOTIFICATIONS, page_size="1000"), set()
    for told in page["notifications"] if page else ():
        shown.add(told["message"]["asset_name"])
        for cause in caller.get(f"{NOTIFICATIONS}/{told['notification_id']}/why")["because"]:
            shown |= {caller.name(asset) for asset in (cause["asset_id"], *cause["path"])}
    return shown


def notified_one_by_one(caller: Caller) -> set[str]:
    """The same, asked by ids that the caller may remember."""
    _tell(caller)
    answers = (caller.get(f"{NOTIFICATIONS}/{_notification(caller, asset)}") for asset in some.ASSETS)
    return {told["message"]["asset_name"] for told in answers if told}


def _notification(caller: Caller, asset: str) -> str:
    return str(uuid5(NAMESPACE_OID, f"{caller.who.tenant_id}:{caller.who.subject}:{asset}"))


def _tell(caller: Caller) -> None:
    who = caller.who
    words = {asset: json.dumps({"asset_name": caller.name(asset)}) for asset in some.ASSETS}
    rows = [
        (who.tenant_id, _notification(caller, asset), who.subject, asset, BEFORE, BEFORE, said, asset)
        for asset, said in words.items()
    ]
    causes = [(*row[:2], str(uuid4()), row[3], sorted(some.containers_of(row[3])), BEFORE) for row in rows]
    with psycopg.connect(caller.api.settings.database.url.get_secret_value()) as connection:
        connection.cursor().executemany(_INSERT_NOTIFICATION, rows)
        connection.cursor().executemany(_INSERT_CAUSE, causes)


def lineage_of_each(caller: Caller) -> set[str]:
    shown: set[str] = set()
    for asset in some.ASSETS:
        found = caller.get(f"{LINEAGE}/{quote(asset, safe='')}", depth="1")
        if found:
            shown |= {node["asset_name"] for node in found["nodes"]} | caller.edges(found["relationships"])
    return shown


def impact_of_each(caller: Caller) -> set[str]:
    """What is below each asset, and the incidents on the way."""
    shown: set[str] = set()
    for asset in some.ASSETS:
        found = caller.get(f"{LINEAGE}/{quote(asset, safe='')}/impact")
        below = [node["asset_id"] for node in found["assets"]] if found else []
        on_the_way = {incident["asset_id"] for incident in found["incidents"]} if found else set()
        assert on_the_way == ({asset, *below} if found else set())
        shown |= {caller.edge(asset, each) for each in below}
    return shown


def paths_between(caller: Caller) -> set[str]:
    shown: set[str] = set()
    for asset in some.ASSETS:
        for above in some.containers_of(asset):
            found = caller.get(f"{LINEAGE}/paths", **{"from": above, "to": asset})
            for path in found["paths"] if found else ():
                shown |= {caller.edge(above, asset)} | caller.edges(path)
    return shown


def lineage_since(caller: Caller) -> set[str]:
    shown: set[str] = set()
    for asset in some.ASSETS:
        path = f"{LINEAGE}/{quote(asset, safe='')}/diff"
        found = caller.get(path, **{"from": BEFORE.isoformat(), "depth": "1"})
        shown |= caller.edges(found["added"]) | caller.edges(found["removed"]) if found else set()
    return shown


def metadata_over_grpc(caller: Caller) -> set[str]:
    def ask(asset: str) -> Any:
        request = _metadata.GetMetadataRequest(asset_id=asset)
        return caller.ask("metadata.MetadataService/GetMetadata", request, _metadata.GetMetadataResponse)

    return {found.metadata.asset_name for asset in some.ASSETS if (found := ask(asset))}


def lineage_over_grpc(caller: Caller) -> set[str]:
    shown: set[str] = set()
    for asset in some.ASSETS:
        request = _lineage.GetLineageRequest(asset_id=asset, depth=1)
        found = caller.ask("lineage.LineageService/GetLineage", request, _lineage.GetLineageResponse)
        shown |= (
            {caller.edge(each.from_asset_id, each.to_asset_id) for each in found.lineage} if found else set()
        )
    return shown


def asset_with_incidents(caller: Caller) -> set[str]:
    """Each asset, and the incidents of what it comes from."""
    shown: set[str] = set()
    for asset in some.ASSETS:
        found = caller.get(f"{ASSETS}/{quote(asset, safe='')}")
        if found:
            assert [incident["title"] for incident in found["incidents"]] == [found["asset_name"]]
            above = {caller.edge(incident["asset_id"], asset) for incident in found["affected_upstream"]}
            shown |= {found["asset_name"]} | above
    return shown


def incidents_listed(caller: Caller) -> set[str]:
    page = caller.get(INCIDENTS, page_size="1000")
    return {incident["title"] for incident in page["incidents"]} if page else set()


def classified(caller: Caller) -> set[str]:
    """Each asset with its tags, and the assets these come from."""
    shown: set[str] = set()
    for asset in some.ASSETS:
        found = caller.get(f"{CLASSIFICATION}/{quote(asset, safe='')}", explain="true")
        origins = [origin for tag in found["tags"] for origin in tag["origins"]] if found else []
        shown |= {caller.name(asset)} if found else set()
        shown |= {caller.name(each) for each in _named(origins)}
    return shown


def tag_explained(caller: Caller) -> set[str]:
    shown: set[str] = set()
    for asset in some.ASSETS:
        found = caller.get(f"{CLASSIFICATION}/{quote(asset, safe='')}/why", tag=GUARDED)
        shown |= {caller.name(each) for each in (asset, *_named(found["origins"]))} if found else set()
    return shown


def _named(origins: list[dict[str, Any]]) -> set[str]:
    ends = {end for origin in origins for edge in origin["path"] for end in edge.values()}
    return ({origin["asset_id"] for origin in origins} | ends) & {*some.ASSETS} - {REDACTED}


def previewed(caller: Caller) -> set[str]:
    """How many assets the caller may read a new tag would reach from each that they may tag."""
    shown = set()
    for asset in some.ASSETS:
        found = caller.post(f"{CLASSIFICATION}/preview", {"asset_id": asset, "tags": [FRESH]})
        many = found["assets"] if found else 0
        shown |= {f"{caller.name(asset)} reaches {many}"} if many else set()
    return shown


def deliveries_listed(caller: Caller) -> set[str]:
    page = caller.get(DELIVERIES, page_size="1000")
    return {caller.name(told["asset_id"]) for told in page["deliveries"]} if page else set()


def deliveries_one_by_one(caller: Caller) -> set[str]:
    ids = [delivery_id(Resource(caller.who.tenant_id, id=asset)) for asset in some.ASSETS]
    answers = (caller.get(f"{DELIVERIES}/{each}") for each in ids)
    return {caller.name(told["asset_id"]) for told in answers if told}


def protected(caller: Caller) -> set[str]:
    shown: set[str] = set()
    for asset in some.ASSETS:
        found = caller.get(f"{COLUMNS}/{quote(asset, safe='')}")
        shown |= {caller.name(column["asset_id"]) for column in found["columns"]} if found else set()
    return shown


def _history(page: Any) -> list[str]:
    return [entry["asset"]["asset_name"] for entry in page["history"]]


ONE = ASSETS + "/{}"
INTERFACES: dict[str, tuple[Shown, tuple[str, ...]]] = {
    "asset and incidents": (asset_with_incidents, (NOW, WAYS)),
    "as of": (each(ONE, lambda asset: [asset["asset_name"]], as_of=BEFORE.isoformat()), (PAST,)),
    "history": (each(ONE, _history, history="true"), (NOW, PAST)),
    "entity": (each("/metadata/{}", lambda entity: [entity["attributes"]["name"]]), (NOW,)),
    "listing": (listed, (NOW,)),
    "decisions": (decided, (NOW,)),
    "decisions over gRPC": (decided_over_grpc, (NOW,)),
    "WebSocket": (told_live, (NOW,)),
    "notifications": (notified, (NOW,)),
    "notification": (notified_one_by_one, (NOW,)),
    "lineage": (lineage_of_each, (NOW, EDGES)),
    "impact": (impact_of_each, (WAYS,)),
    "paths": (paths_between, (WAYS,)),
    "diff": (lineage_since, (EDGES,)),
    "metadata over gRPC": (metadata_over_grpc, (NOW,)),
    "lineage over gRPC": (lineage_over_grpc, (EDGES,)),
    "incidents": (incidents_listed, (NOW,)),
    "incident": (each(INCIDENTS + "/of {}", lambda incident: [incident["title"]]), (NOW,)),
    "classification": (classified, (NOW,)),
    "why a tag": (tag_explained, (NOW,)),
    "preview": (previewed, (PREVIEWED,)),
    "deliveries": (deliveries_listed, (DELIVERED,)),
    "delivery": (deliveries_one_by_one, (DELIVERED,)),
    "protected columns": (protected, (PROTECTED,)),
}
