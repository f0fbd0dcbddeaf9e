"""The routes that read and change protection rules and tell what they do, under /lily/v1/protection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from lily.access.assets import AssetGuard
from lily.access.calls import Call, Reading, call_for
from lily.access.decisions import Action, Resource
from lily.access.requests import check_id, check_uuid
from lily.access.routers import Route, add_routes
from lily.domain.errors import NotFound
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.protected_columns import PostgresProtectedColumns, judged
from lily.repositories.postgres.protection_rules import PostgresProtectionRules
from lily.serving.rest.after import AfterEvent
from lily.serving.rest.answers import answer
from lily.serving.rest.bodies import body_of, read_model
from lily.serving.rest.protection_answers import ProtectedColumns, RuleDocument, RuleList
from lily.serving.rest.protection_documents import RuleBody, column_document, rule_document

RULES = "/lily/v1/protection/rules"
COLUMNS = "/lily/v1/protection/columns"

ReadingRules = Annotated[Call, Depends(call_for(Action.READ, "protection_rule"))]
AdministeringRules = Annotated[Call, Depends(call_for(Action.ADMINISTER, "protection_rule"))]


@dataclass(frozen=True)
class ProtectionRoutes:
    """A change is answered when every gateway works by it."""

    rules: PostgresProtectionRules
    columns: PostgresProtectedColumns
    guard: AssetGuard
    announcements: Announcements
    after: AfterEvent

    def router(self) -> APIRouter:
        one, body, document = RULES + "/{rule_id}", body_of(RuleBody), RuleDocument
        of_asset, columns, after = (
            COLUMNS + "/{asset_id:path}",
            ProtectedColumns,
            [Depends(self.after.visible)],
        )
        return add_routes(
            APIRouter(tags=["protection"]),
            Route(RULES, "POST", self.create, "createProtectionRule", document, body, status=201),
            Route(RULES, "GET", self.list, "listProtectionRules", RuleList),
            Route(one, "GET", self.get, "getProtectionRule", document),
            Route(one, "PUT", self.replace, "replaceProtectionRule", document, body),
            Route(of_asset, "GET", self.applied, "listProtectedColumns", columns, dependencies=after),
            Route(one, "DELETE", self.remove, "deleteProtectionRule", status=204),
        )

    async def create(self, request: Request, call: AdministeringRules) -> Response:
        """A new rule; engines that ask follow it from now on, enforced databases within a moment."""
        body = await read_model(request, RuleBody)
        rule = body.rule()
        stored = await self.rules.add(call.tenant_id, rule, body.description, call.principal.subject)
        _note(call, "create", rule.rule_id, rule.tag)
        await self.announcements.wait_until_heard()
        return answer(rule_document(stored), 201, {"location": f"{RULES}/{rule.rule_id}"})

    async def list(self, call: ReadingRules) -> Response:
        """All rules, in the order of their ids."""
        found = await self.rules.list(call.tenant_id)
        return answer({"rules": [rule_document(each) for each in found]})

    async def get(self, call: ReadingRules, rule_id: str) -> Response:
        stored = await self.rules.find(call.tenant_id, check_uuid(rule_id, "rule"))
        if stored is None:
            raise _unknown(rule_id)
        return answer(rule_document(stored))

    async def replace(self, request: Request, call: AdministeringRules, rule_id: str) -> Response:
        """The rule, replaced as a whole."""
        body = await read_model(request, RuleBody)
        stored = await self.rules.replace(
            call.tenant_id, body.rule(check_uuid(rule_id, "rule")), body.description
        )
        if stored is None:
            raise _unknown(rule_id)
        _note(call, "update", rule_id, body.tag)
        await self.announcements.wait_until_heard()
        return answer(rule_document(stored))

    async def remove(self, call: AdministeringRules, rule_id: str) -> Response:
        """The rule is gone, and with it what it did to columns."""
        if not await self.rules.remove(call.tenant_id, check_uuid(rule_id, "rule")):
            raise _unknown(rule_id)
        _note(call, "delete", rule_id, "")
        await self.announcements.wait_until_heard()
        return Response(status_code=204)

    async def applied(self, call: Reading, asset_id: str) -> Response:
        """The protected columns among an asset and what it contains, as far as the caller may see them.

        Who protects what from whom is for those who may read the rules.
        """
        await call.require(Action.READ, Resource(call.tenant_id, "protection_rule"))
        if await self.guard.find(call, check_id(asset_id)) is None:
            raise NotFound(f"there is no asset {asset_id!r}")
        columns = await self.columns.below(call.tenant_id, [asset_id])
        seen = await self.guard.show(call, [column.asset_id for column in columns], "protection")
        found = judged(sorted(columns, key=lambda each: each.asset_id), await self.rules.load(call.tenant_id))
        shown = [column_document(*each) for each in found if each[1] and each[0].asset_id in seen]
        return answer({"asset_id": asset_id, "columns": shown})


def _note(call: Call, action: str, rule_id: str, tag: str) -> None:
    call.notebook.write(action, ("protection_rule", rule_id), True, f"tag {tag}" if tag else "")


def _unknown(rule_id: str) -> NotFound:
    return NotFound(f"there is no protection rule {rule_id!r}; GET {RULES} lists them")
