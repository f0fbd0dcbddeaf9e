"""Random rules, people and assets for `bench access`: the same for every engine and every run with a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TypeVar

from lily.access.decision_points import Asked
from lily.access.decisions import Action, Resource
from lily.access.principals import Principal
from lily.domain.policies import (
    AccessType,
    Effect,
    Grantee,
    GranteeKind,
    Policy,
    Rules,
    Scope,
    ScopeKind,
)

Choice = TypeVar("Choice")

TENANT = "bench"
ROLES, GROUPS, USERS = 40, 60, 2_000
TAGS, TYPES, SOURCES, TABLES, ASSETS = 100, 10, 20, 2_000, 20_000
#: Of a hundred policies: so many about roles, groups and users, and of each scope.
_GRANTEES = ((GranteeKind.ROLE, 60), (GranteeKind.GROUP, 30), (GranteeKind.USER, 10))
_SCOPES = (
    (ScopeKind.TAG, 35),
    (ScopeKind.ASSET, 25),
    (ScopeKind.CONTAINED, 20),
    (ScopeKind.TYPE, 10),
    (ScopeKind.SOURCE, 10),
)
_ACTIONS = ((Action.READ, 80), (Action.WRITE, 15), (Action.DELETE, 5))


@dataclass(frozen=True)
class World:
    rules: Rules
    principals: list[Principal]
    resources: list[Resource]


def make_world(policies: int, seed: int) -> World:
    """So many policies over 2,000 people and 20,000 assets."""
    rng = random.Random(seed)
    return World(
        Rules(policies=tuple(_policy(rng, number) for number in range(policies))),
        [_principal(rng, number) for number in range(USERS)],
        [_resource(rng, number) for number in range(ASSETS)],
    )


def draw(world: World, questions: int, working_set: list[Asked], repeated: float, seed: int) -> list[Asked]:
    """Questions: this share from the working set, the others about a person and an asset at random."""
    rng = random.Random(seed)
    return [
        rng.choice(working_set) if working_set and rng.random() < repeated else _question(rng, world)
        for _ in range(questions)
    ]


def _question(rng: random.Random, world: World) -> Asked:
    return rng.choice(world.principals), _pick(rng, _ACTIONS), rng.choice(world.resources)


def _policy(rng: random.Random, number: int) -> Policy:
    kind = _pick(rng, _GRANTEES)
    names = {GranteeKind.ROLE: ROLES, GranteeKind.GROUP: GROUPS, GranteeKind.USER: USERS}
    scope = _pick(rng, _SCOPES)
    values = {
        ScopeKind.TAG: ("tag", TAGS),
        ScopeKind.ASSET: ("asset", ASSETS),
        ScopeKind.CONTAINED: ("table", TABLES),
        ScopeKind.TYPE: ("type", TYPES),
        ScopeKind.SOURCE: ("source", SOURCES),
    }
    name, many = values[scope]
    return Policy(
        policy_id=f"p{number}",
        grantee=Grantee(kind, f"{kind.value}{rng.randrange(names[kind])}"),
        access_type=AccessType(_pick(rng, _ACTIONS).value),
        effect=Effect.FORBID if rng.random() < 0.15 else Effect.ALLOW,
        scope=Scope(scope, f"{name}{rng.randrange(many)}"),
    )


def _principal(rng: random.Random, number: int) -> Principal:
    roles = frozenset(f"role{rng.randrange(ROLES)}" for _ in range(rng.randint(1, 3)))
    groups = frozenset(f"group{rng.randrange(GROUPS)}" for _ in range(rng.randint(0, 2)))
    return Principal(TENANT, f"user{number}", roles, groups)


def _resource(rng: random.Random, number: int) -> Resource:
    return Resource(
        TENANT,
        id=f"asset{number}",
        asset_type=f"type{rng.randrange(TYPES)}",
        data_source=f"source{rng.randrange(SOURCES)}",
        tags=frozenset(f"tag{rng.randrange(TAGS)}" for _ in range(rng.randint(0, 3))),
        containers=frozenset({f"table{number % TABLES}", f"schema{number % 50}"}),
    )


def _pick(rng: random.Random, weighted: tuple[tuple[Choice, int], ...]) -> Choice:
    names, weights = zip(*weighted, strict=True)
    return rng.choices(names, weights)[0]
