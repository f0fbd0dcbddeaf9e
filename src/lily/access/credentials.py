"""Turns a credential into the principal it speaks for: one question to the database, then a look in memory.

What is remembered ends with the credential, and as soon as something about it is announced. While this
process is not sure to be told (see `Announcements`), nothing remembered is used.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from lily.access.issuers import Issuers
from lily.access.principals import Principal
from lily.access.scopes import actions_of
from lily.access.secrets import API_KEY, read_secret
from lily.access.tokens import COOKIE_AUDIENCE, ISSUER, OwnToken, verify_token
from lily.domain.errors import Unauthenticated
from lily.domain.key_roles import roles_of_key
from lily.repositories.postgres.announcements import Announcement, Announcements
from lily.repositories.postgres.api_keys import ApiKeys, UsableKey
from lily.repositories.postgres.identities import Identities, Person, Session

SESSION, TOKEN, KEY = "session", "token", "key"
_MAX_REMEMBERED = 20_000
_MAX_LENGTH = 16 * 1024
_ENDED = "it was revoked, or whoever it belongs to may no longer log in; log in again"

Handle = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Credential:
    """A verified credential. `handles` are the announcements that end what is known about it."""

    kind: str
    principal: Principal
    expires: float
    handles: frozenset[Handle]


class Authenticator:
    """Verifies bearer tokens (of configured issuers and our own), API keys and session cookies."""

    def __init__(
        self,
        secret: str,
        identities: Identities,
        keys: ApiKeys,
        issuers: Issuers,
        announcements: Announcements,
    ) -> None:
        self._secret = secret
        self._identities = identities
        self._api_keys = keys
        self._issuers = issuers
        self._announcements = announcements
        self._known: dict[str, Credential] = {}
        announcements.subscribe(self._hear)

    async def bearer(self, text: str) -> Credential:
        """Whom `Authorization: Bearer <text>` speaks for; `Unauthenticated` when for nobody."""
        return self.remembered(text) or await self._verify(text, text)

    async def cookie(self, text: str) -> Credential:
        """Whom a session cookie speaks for."""
        name = f"cookie\n{text}"  # which no header can hold: a cookie is no bearer token
        return self.remembered(name) or await self._verify(name, text)

    def remembered(self, text: str) -> Credential | None:
        """Whom a bearer token or key speaks for, if that is known for sure without asking."""
        known = self._known.get(text)
        if known is not None and known.expires > time.time() and self._announcements.is_current():
            return known
        return None

    async def _verify(self, name: str, text: str) -> Credential:
        generation = self._announcements.generation
        if len(text) > _MAX_LENGTH:
            raise Unauthenticated("the token is too long")
        if name != text:
            credential = await self._of_own(verify_token(self._secret, text, COOKIE_AUDIENCE))
        elif text.startswith(API_KEY):
            credential = await self._of_key(text)
        else:
            credential = await self._of_token(text)
        if generation == self._announcements.generation:
            self._remember(name, credential)
        return credential

    async def _of_token(self, text: str) -> Credential:
        named = _issuer_named_by(text)
        if named == ISSUER:
            return await self._of_own(verify_token(self._secret, text))
        issuer = self._issuers.of(named)
        if issuer is None:
            raise Unauthenticated("the token is not valid: its issuer is not one this installation believes")
        vouched = issuer.vouched(text, await issuer.verify(text, issuer.settings.audience))
        tenant_id, token_id = vouched.tenant_id, vouched.credential_id
        if await self._identities.is_revoked(tenant_id, token_id):
            raise Unauthenticated(_ENDED)
        person = await self._identities.person(tenant_id, vouched.subject, groups=sorted(vouched.groups))
        if person.active is False:
            raise Unauthenticated(_ENDED)
        roles, scopes = vouched.roles | person.roles, actions_of(vouched.scopes)
        principal = Principal(tenant_id, vouched.subject, roles, person.groups, scopes, token_id)
        return _credential(TOKEN, principal, vouched.expires, vouched.subject)

    async def _of_own(self, token: OwnToken) -> Credential:
        if token.session_id is not None:
            return await self._of_session(token, token.session_id)
        if await self._identities.is_revoked(token.tenant_id, token.token_id):
            raise Unauthenticated(_ENDED)
        person = await self._identities.person(token.tenant_id, token.subject)
        if person.active is False:
            raise Unauthenticated(_ENDED)
        roles = frozenset({token.role or ""})
        principal = Principal(token.tenant_id, token.subject, roles, person.groups, None, token.token_id)
        return _credential(TOKEN, principal, token.expires, token.subject)

    async def _of_session(self, token: OwnToken, session_id: str) -> Credential:
        session = await self._identities.session(token.tenant_id, session_id)
        if session is None:
            raise Unauthenticated(_ENDED)
        principal = await self._principal_of(session)
        return _credential(SESSION, principal, min(token.expires, session.expires), session.subject)

    async def _principal_of(self, session: Session) -> Principal:
        tenant_id, subject = session.tenant_id, session.subject
        person = await self._identities.person(tenant_id, subject, session.user_id, session.groups)
        if person.active is False or (person.active is None and session.user_id is not None):
            raise Unauthenticated(_ENDED)
        roles, scopes = person.roles | frozenset(session.roles), actions_of(session.scopes)
        return Principal(tenant_id, subject, roles, person.groups, scopes, session.session_id)

    async def _of_key(self, text: str) -> Credential:
        secret = read_secret(API_KEY, text)
        key = secret and await self._api_keys.use(secret.tenant_id, secret.reference, secret.hash)
        if not secret or not key:
            raise Unauthenticated("the API key is not valid: unknown, revoked or expired; make a new one")
        owner = await self._identities.person(secret.tenant_id, key.owner)
        if owner.active is False:
            raise Unauthenticated(_ENDED)
        subject, scopes = f"key:{key.name}", actions_of(key.scopes)
        principal = Principal(
            secret.tenant_id,
            subject,
            _usable_roles(key, owner),
            owner.groups,
            scopes,
            secret.reference,
            key.owner,
            owner.roles | frozenset(key.owner_roles),
            owner.groups | frozenset(key.owner_groups),
        )
        return _credential(KEY, principal, key.expires, key.owner)

    def _remember(self, text: str, credential: Credential) -> None:
        if len(self._known) >= _MAX_REMEMBERED:
            for oldest in list(self._known)[: _MAX_REMEMBERED // 10]:
                del self._known[oldest]
        self._known[text] = credential

    def _hear(self, announcement: Announcement | None) -> None:
        if announcement is None:
            self._known.clear()
        elif announcement.kind in (SESSION, TOKEN, KEY, "user"):
            handle = (announcement.kind, announcement.tenant_id, announcement.key)
            self._forget(lambda credential: handle in credential.handles)
        elif announcement.kind == "group":
            self._forget(lambda credential: credential.principal.tenant_id == announcement.tenant_id)

    def _forget(self, concerned: Callable[[Credential], bool]) -> None:
        self._known = {text: known for text, known in self._known.items() if not concerned(known)}


def _credential(kind: str, principal: Principal, expires: float, owner: str) -> Credential:
    own = (kind, principal.tenant_id, principal.credential_id)
    return Credential(
        kind, principal, expires, frozenset({own, ("user", principal.tenant_id, owner.lower())})
    )


def _usable_roles(key: UsableKey, owner: Person) -> frozenset[str]:
    if owner.active is None:  # made for a machine by nobody in the directory, who cannot lose a role
        return frozenset(key.roles)
    return roles_of_key(key.roles, key.owner_roles, owner.roles | frozenset(key.vouched_roles))


def _issuer_named_by(token: str) -> str:
    """The issuer a token claims to be of; nothing is verified yet."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return str(claims["iss"])
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        raise Unauthenticated("the token is not valid: not a JWT with an issuer, and no API key") from None
