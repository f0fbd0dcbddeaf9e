"""Protection rules as callers write and read them."""

from __future__ import annotations

from typing import Any, Literal
from uuid import uuid4

from pydantic import Field

from lily.domain.errors import InvalidInput
from lily.domain.masks import Family, mask_document, read_mask
from lily.domain.policies import Scope, ScopeKind
from lily.domain.protection import Column, Effect, Protection, Rule
from lily.repositories.postgres.protection_rules import StoredRule
from lily.serving.rest.bodies import Body
from lily.serving.rest.policy_documents import AssetName, Name

_MASK = """What is shown instead: `{"kind": "null"}`, `{"kind": "constant", "value": "hidden"}`,
`{"kind": "hash"}`, `{"kind": "partial", "first": 1, "last": 4}` or `{"kind": "date", "unit": "year"}`.
Where a mask does not fit a column's data type nothing is shown. Left out, nothing is shown."""


class RuleBody(Body):
    """Columns with a tag are masked or denied, except for these roles and groups."""

    tag: Name
    scope: Literal["all", "source", "contained", "asset"] = "all"
    asset_id: AssetName | None = Field(None, description="For the scopes asset (a column) and contained.")
    value: AssetName | None = Field(None, description="The source of the scope source.")
    includes_contained: bool = Field(
        False, description="Whether the tag of a table, schema or database protects the columns in it too."
    )
    effect: Literal["mask", "deny"] = "mask"
    mask: dict[str, Any] = Field(default_factory=lambda: {"kind": "null"}, description=_MASK)
    masks_by_type: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description=f"Other masks for some data types: {', '.join(Family)}."
    )
    except_roles: list[Name] = Field(default_factory=list, max_length=64)
    except_groups: list[Name] = Field(default_factory=list, max_length=64)
    description: str = Field("", max_length=1024)

    def rule(self, rule_id: str = "") -> Rule:
        """The rule, checked as a whole; a new id unless one is given."""
        if self.effect == "deny" and (self.mask != {"kind": "null"} or self.masks_by_type):
            raise _invalid("/mask", "must be left out with the effect deny")
        return Rule(
            rule_id=rule_id or str(uuid4()),
            tag=self.tag,
            scope=self._scope(),
            includes_contained=self.includes_contained,
            effect=Effect(self.effect),
            mask=read_mask(self.mask),
            masks_by_type={
                _family(name): read_mask(mask, f"/masks_by_type/{name}")
                for name, mask in self.masks_by_type.items()
            },
            except_roles=frozenset(self.except_roles),
            except_groups=frozenset(self.except_groups),
        )

    def _scope(self) -> Scope:
        wanted = {"all": None, "source": "value"}.get(self.scope, "asset_id")
        given = {"asset_id": self.asset_id, "value": self.value}
        for name, text in given.items():
            if (text is not None) != (name == wanted):
                must = "is required" if name == wanted else "must be left out"
                raise _invalid(f"/{name}", f"{must} with the scope {self.scope!r}")
        return Scope(ScopeKind(self.scope), given[wanted] or "" if wanted else "")


def rule_document(stored: StoredRule) -> dict[str, Any]:
    """A rule as it was written."""
    rule, about_asset = stored.rule, stored.rule.scope.kind in (ScopeKind.ASSET, ScopeKind.CONTAINED)
    return {
        "rule_id": rule.rule_id,
        "tag": rule.tag,
        "scope": rule.scope.kind.value,
        "asset_id": rule.scope.value if about_asset else None,
        "value": None if about_asset else rule.scope.value or None,
        "includes_contained": rule.includes_contained,
        "effect": rule.effect.value,
        "mask": mask_document(rule.mask),
        "masks_by_type": {family.value: mask_document(mask) for family, mask in rule.masks_by_type.items()},
        "except_roles": sorted(rule.except_roles),
        "except_groups": sorted(rule.except_groups),
        "description": stored.description,
        "created_by": stored.created_by,
        "created_at": stored.created_at,
        "updated_at": stored.updated_at,
    }


def column_document(column: Column, protections: tuple[Protection, ...]) -> dict[str, Any]:
    """A column and what protects it, the strictest first."""
    return {
        "asset_id": column.asset_id,
        "data_type": column.data_type,
        "protections": [
            {
                "rule_id": each.rule_id,
                "effect": each.effect.value,
                "mask": mask_document(each.mask) if each.effect is Effect.MASK else None,
                "except_roles": sorted(each.except_roles),
                "except_groups": sorted(each.except_groups),
            }
            for each in protections
        ],
    }


def _family(name: str) -> Family:
    try:
        return Family(name)
    except ValueError:
        raise _invalid(f"/masks_by_type/{name[:64]}", f"known types: {', '.join(Family)}") from None


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput(f"{pointer}: {detail}", errors=[{"pointer": pointer, "detail": detail}])
