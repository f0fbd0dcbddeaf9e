"""What is decided about: an action on a resource; and what comes out: a decision with its reasons."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ASSET = "asset"


class Action(StrEnum):
    """What somebody wants to do. A credential's scopes name actions in lower case."""

    READ = "READ"
    WRITE = "WRITE"
    DELETE = "DELETE"
    PURGE = "PURGE"
    ADMINISTER = "ADMINISTER"
    AUDIT = "AUDIT"

    @property
    def scope(self) -> str:
        return self.value.lower()


@dataclass(frozen=True, slots=True)
class Resource:
    """What they want to do it to; the attributes are those policies can see.

    `containers` are all assets this one is contained in, at any depth. Other kinds than assets (policy, role,
    user, tenant, audit, …) are known by kind and id alone.
    """

    tenant_id: str
    kind: str = ASSET
    id: str = ""
    asset_type: str = ""
    data_source: str = ""
    tags: frozenset[str] = frozenset()
    owner: str = ""
    containers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Decision:
    """`reasons` are the ids of the policies that decided, or one sentence when no policy did."""

    allowed: bool
    reasons: tuple[str, ...]


NO_POLICY_ALLOWS = Decision(False, ("no policy allows it",))
OTHER_TENANT = Decision(False, ("it belongs to another tenant",))
BEYOND_SCOPES = Decision(False, ("the credential's scopes do not include it",))
