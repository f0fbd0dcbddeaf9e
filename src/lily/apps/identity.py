"""The gateway's parts that know who is asking, wired together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import APIRouter

from lily.access.console_logins import ConsoleLogins
from lily.access.cookies import Cookies
from lily.access.credentials import Authenticator
from lily.access.issuers import Issuers
from lily.access.passwords import Passwords
from lily.access.sessions import Sessions
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.api_keys import ApiKeys
from lily.repositories.postgres.directory import Directory
from lily.repositories.postgres.identities import Identities
from lily.repositories.postgres.login_attempts import LoginAttempts
from lily.repositories.postgres.pool import Database
from lily.serving.rest.api_keys import ApiKeyRoutes
from lily.serving.rest.auth import AuthRoutes
from lily.serving.rest.console_logins import ConsoleLoginRoutes
from lily.serving.rest.role_assignments import RoleAssignmentRoutes
from lily.serving.rest.scim import CollectionRoutes, DiscoveryRoutes
from lily.serving.rest.scim_resources import Groups, Users
from lily.settings import AuthSettings


class IdentityParts:
    """One of each; `announcements` also tells about policies."""

    def __init__(self, settings: AuthSettings, database: Database) -> None:
        self._settings = settings
        secret = settings.secret.get_secret_value()
        self.announcements = Announcements(database)
        self.cookies = Cookies(secret, settings.public_url)
        self._identities, self._keys = Identities(database), ApiKeys(database)
        self._directory = Directory(database)
        self._issuers = Issuers(settings.issuers)
        self.authenticator = Authenticator(
            secret, self._identities, self._keys, self._issuers, self.announcements
        )
        attempts = LoginAttempts(database)
        self._logins = ConsoleLogins(secret, settings.public_url, self._issuers)
        self._sessions = Sessions(secret, self._identities, attempts, self.announcements)

    def routers(self) -> list[APIRouter]:
        collections = Users(self._directory, Passwords()), Groups(self._directory)
        return [
            AuthRoutes(self._sessions, self.cookies).router(),
            ConsoleLoginRoutes(self._logins, self._sessions, self.cookies, self._settings).router(),
            ApiKeyRoutes(self._keys, self._identities, self.announcements).router(),
            RoleAssignmentRoutes(self._directory, self.announcements).router(),
            *(CollectionRoutes(each, self.announcements).router() for each in collections),
            DiscoveryRoutes(collections).router(),
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Hear announcements and forget what has ended, while the context is open."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._issuers.close)
            await stack.enter_async_context(self._identities.running())
            await stack.enter_async_context(self.announcements.running())
            yield
