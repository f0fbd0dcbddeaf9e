"""Logging in, staying logged in and logging out, at Lily itself."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lily.access.credentials import KEY, SESSION, Credential
from lily.access.passwords import Passwords
from lily.access.secrets import REFRESH, Secret, new_value, read_secret
from lily.access.tokens import COOKIE_AUDIENCE, OwnToken, mint_session_token
from lily.domain.errors import Forbidden, TooManyRequests, Unauthenticated
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.identities import Identities, Session
from lily.repositories.postgres.login_attempts import LoginAttempts

TOKEN_SECONDS = 900
SESSION_SECONDS = 7 * 24 * 3600
#: Of a session whose roles and groups a provider vouched for: then it is asked again whether they still are.
VOUCHED_SECONDS = 12 * 3600
WINDOW_SECONDS = 300.0
#: Failed attempts per window: for one user name, and from one address whatever the tenant.
USER_LIMIT = 10
ADDRESS_LIMIT = 60
EVERY_TENANT = "*"


@dataclass(frozen=True, slots=True)
class Login:
    tenant_id: str
    user_name: str
    password: str
    scopes: Sequence[str] | None
    address: str


@dataclass(frozen=True, slots=True)
class Grant:
    """What a login is answered with."""

    session: Session
    access_token: str
    refresh_token: str


class Sessions:
    def __init__(
        self, secret: str, identities: Identities, attempts: LoginAttempts, announcements: Announcements
    ) -> None:
        self._secret = secret
        self._identities = identities
        self._attempts = attempts
        self._announcements = announcements
        self._passwords = Passwords()

    async def check_password(self, login: Login) -> Session:
        """A session for whoever knows the password; an unknown user takes as long as a wrong password."""
        user, address = f"user {login.user_name.lower()}", f"address {login.address}"
        await self._admit(EVERY_TENANT, address, ADDRESS_LIMIT)
        await self._admit(login.tenant_id, user, USER_LIMIT)
        known = await self._identities.password_of(login.tenant_id, login.user_name)
        matches = await self._passwords.verify(known.password_hash if known else None, login.password)
        if not known or not matches:
            raise Unauthenticated("the tenant, user name or password is wrong")
        await self._attempts.forgive(login.tenant_id, user, everything=True)
        await self._attempts.forgive(EVERY_TENANT, address, everything=False)
        return Session(login.tenant_id, known.user_id, known.user_name, scopes=login.scopes)

    async def open(self, session: Session) -> Grant:
        """Open a session with an access token and a refresh token."""
        value = new_value()
        refresh = Secret(REFRESH, session.tenant_id, "", value)
        session_id = await self._identities.open_session(session, SESSION_SECONDS, refresh.hash)
        return self._grant(replace(session, session_id=session_id), value)

    async def open_for_browser(self, session: Session) -> tuple[str, str]:
        """Open a session; its id and the value of its cookie."""
        seconds = SESSION_SECONDS if session.user_id else VOUCHED_SECONDS
        session_id = await self._identities.open_session(session, seconds, None)
        expires = time.time() + seconds
        token = OwnToken(session.tenant_id, session.subject, "", expires, session_id=session_id)
        return session_id, mint_session_token(self._secret, token, COOKIE_AUDIENCE)

    async def refresh(self, text: str) -> Grant:
        """The next tokens for a refresh token, which is used up; one that comes back ends its session."""
        given = read_secret(REFRESH, text)
        if given is None:
            raise Unauthenticated("this is no refresh token; log in again")
        value = new_value()
        following = replace(given, value=value)
        session_id = await self._identities.rotate(given.tenant_id, given.hash, following.hash)
        session = session_id and await self._identities.session(given.tenant_id, session_id)
        if not session:
            if await self._identities.revoke_family(given.tenant_id, given.hash):
                await self._announcements.wait_until_heard()
            raise Unauthenticated("the refresh token was used before or its session has ended; log in again")
        return self._grant(session, value)

    async def log_out(self, credential: Credential) -> None:
        """End the credential; when this returns, no gateway accepts it any more."""
        principal = credential.principal
        if credential.kind == KEY:
            raise Forbidden("an API key does not log out; revoke it with DELETE /lily/v1/api-keys/{key_id}")
        if credential.kind == SESSION:
            await self._identities.revoke_session(principal.tenant_id, principal.credential_id)
        else:
            await self._identities.revoke_token(
                principal.tenant_id, principal.credential_id, credential.expires
            )
        await self._announcements.wait_until_heard()

    async def _admit(self, tenant_id: str, bucket: str, limit: int) -> None:
        attempts, wait = await self._attempts.count(tenant_id, bucket, WINDOW_SECONDS)
        if attempts > limit:
            seconds = max(1, math.ceil(wait))
            raise TooManyRequests(
                f"too many failed logins; try again in {seconds} seconds", retry_after=seconds
            )

    def _grant(self, session: Session, refresh_value: str) -> Grant:
        expires = time.time() + TOKEN_SECONDS
        token = OwnToken(session.tenant_id, session.subject, "", expires, session_id=session.session_id)
        refresh = Secret(REFRESH, session.tenant_id, session.session_id, refresh_value)
        return Grant(session, mint_session_token(self._secret, token), refresh.text)
