"""The engines `bench access` compares, each asked the same questions under the same rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import casbin  # type: ignore[import-untyped]  # ships no types
import cedarpy

from bench.kit.access_worlds import TENANT, World
from lily.access import cedar
from lily.access.books import Book
from lily.access.decision_points import Access, Asked, FixedBooks
from lily.access.decisions import Action, Resource
from lily.access.principals import Principal
from lily.domain.policies import Effect, Policy, ScopeKind

_CASBIN_MODEL = """
[request_definition]
r = sub, obj, act
[policy_definition]
p = sub, obj, act, eft
[role_definition]
g = _, _
g2 = _, _
[policy_effect]
e = some(where (p.eft == allow)) && !some(where (p.eft == deny))
[matchers]
m = r.act == p.act && g(r.sub, p.sub) && g2(r.obj, p.obj)
"""


class Lily:
    def __init__(self, world: World) -> None:
        self._access = Access(FixedBooks(Book(world.rules)))

    def single(self, asked: Asked) -> bool:
        return self._access.decide(*asked).allowed

    def batch(self, asked: Sequence[Asked]) -> list[bool]:
        return [decision.allowed for decision in self._access.decide_batch(TENANT, asked)]


class PlainCedar:
    """All policies in one set parsed once; the entities of a question come with it."""

    def __init__(self, world: World) -> None:
        compiled = {policy.policy_id: cedar.compile_policy(policy, None) for policy in world.rules.policies}
        self._policies = cedar.policy_set(compiled)

    def single(self, asked: Asked) -> bool:
        return self.batch([asked])[0]

    def batch(self, asked: Sequence[Asked]) -> list[bool]:
        entities = {str(entity["uid"]): entity for question in asked for entity in _entities(question)}
        requests = [_request(question) for question in asked]
        found = cedarpy.is_authorized_batch(requests, self._policies, list(entities.values()))
        return [result.allowed for result in found]


class Casbin:
    """Roles of people and, for resources, a role per tag, type, source and container."""

    def __init__(self, world: World, asked: Sequence[Asked]) -> None:
        self._enforcer = casbin.Enforcer(casbin.Enforcer.new_model(text=_CASBIN_MODEL))
        self._enforcer.add_policies([_casbin_policy(policy) for policy in world.rules.policies])
        people = {f"user:{who.subject}": _names(who) for who, _, _ in asked}
        things = {f"asset:{what.id}": _groups(what) for _, _, what in asked}
        pairs = [[one, name] for one, names in people.items() for name in names if one != name]
        self._enforcer.add_grouping_policies(pairs)
        pairs = [[one, name] for one, names in things.items() for name in names if one != name]
        self._enforcer.add_named_grouping_policies("g2", pairs)

    def single(self, asked: Asked) -> bool:
        return bool(self._enforcer.enforce(*_casbin_request(asked)))

    def batch(self, asked: Sequence[Asked]) -> list[bool]:
        return list(self._enforcer.batch_enforce([_casbin_request(each) for each in asked]))


def _entities(asked: Asked) -> list[dict[str, Any]]:
    who, _, what = asked
    parents = [("Role", name) for name in who.roles] + [("Group", name) for name in who.groups]
    above = [("Kind", "asset"), ("Type", what.asset_type), ("Source", what.data_source)]
    above += [("Tag", tag) for tag in what.tags] + [("Asset", each) for each in what.containers]
    return [
        {"uid": _uid("User", who.subject), "attrs": {}, "parents": [_uid(*each) for each in parents]},
        {"uid": _uid("Asset", what.id), "attrs": {}, "parents": [_uid(*each) for each in above]},
    ]


def _request(asked: Asked) -> dict[str, Any]:
    who, action, what = asked
    return {
        "principal": _uid("User", who.subject),
        "action": _uid("Action", action.value),
        "resource": _uid("Asset", what.id),
    }


def _uid(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "id": name}


def _casbin_policy(policy: Policy) -> list[str]:
    kind = "in" if policy.scope.kind is ScopeKind.CONTAINED else policy.scope.kind.value
    effect = "allow" if policy.effect is Effect.ALLOW else "deny"
    grantee = f"{policy.grantee.kind.value}:{policy.grantee.name}"
    return [grantee, f"{kind}:{policy.scope.value}", policy.access_type.value, effect]


def _casbin_request(asked: Asked) -> tuple[str, str, str]:
    who, action, what = asked
    assert isinstance(action, Action)
    return f"user:{who.subject}", f"asset:{what.id}", action.value


def _names(who: Principal) -> list[str]:
    return [*(f"role:{name}" for name in who.roles), *(f"group:{name}" for name in who.groups)]


def _groups(what: Resource) -> list[str]:
    inside = [f"in:{name}" for name in (*what.containers, what.id)]
    tags = [f"tag:{name}" for name in what.tags]
    return [*inside, *tags, f"type:{what.asset_type}", f"source:{what.data_source}"]
