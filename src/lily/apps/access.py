"""The gateway's parts that know what somebody may do, wired together."""

from __future__ import annotations

from fastapi import APIRouter
from grpc import GenericRpcHandler

from lily.access.assets import AssetGuard
from lily.access.decision_points import Access
from lily.access.live_books import LiveBooks
from lily.access.people import People
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.asset_lists import AssetLists
from lily.repositories.postgres.policies import PostgresPolicies, PostgresRoles, PostgresScraperPolicies
from lily.repositories.postgres.pool import Database
from lily.serving.grpc.access_service import SERVICE, AccessService
from lily.serving.grpc.calls import Calls
from lily.serving.rest.access_control import PolicyRoutes
from lily.serving.rest.after import AfterEvent
from lily.serving.rest.decisions import DecisionRoutes
from lily.serving.rest.listing import AssetListing
from lily.serving.rest.pages import PageTokens
from lily.serving.rest.roles import RoleRoutes, ScraperPolicyRoutes


class AccessParts:
    """The decision point of this process, and the routes about rules and decisions."""

    def __init__(
        self, database: Database, announcements: Announcements, guard: AssetGuard, lists: AssetLists
    ) -> None:
        self._database = database
        self._announcements = announcements
        self._guard = guard
        self._lists = lists
        self._policies = PostgresPolicies(database)
        self.point = Access(LiveBooks(announcements, self._policies))

    def services(self, calls: Calls) -> dict[str, GenericRpcHandler]:
        """What is served over gRPC, by name."""
        return {SERVICE: AccessService(calls, self._guard).handler()}

    def routers(self, after: AfterEvent, tokens: PageTokens) -> list[APIRouter]:
        """Before the routes about single assets, whose paths would take these for ids."""
        database, announcements, lists = self._database, self._announcements, self._lists
        return [
            PolicyRoutes(self._policies, self._guard, announcements, tokens).router(),
            RoleRoutes(PostgresRoles(database), announcements).router(),
            ScraperPolicyRoutes(PostgresScraperPolicies(database), announcements).router(),
            DecisionRoutes(self._guard, lists, People(database)).router(),
            AssetListing(lists, after, tokens).router(),
        ]
