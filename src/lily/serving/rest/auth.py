"""Logging in, refreshing, validating and logging out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from lily.access.audit import INSTALLATION
from lily.access.calls import Authenticated
from lily.access.cookies import Cookies
from lily.access.credentials import SESSION, Credential
from lily.access.notebooks import Notebook
from lily.access.origins import origin_of
from lily.access.principals import Principal
from lily.access.routers import Route, add_routes
from lily.access.scopes import check_scopes
from lily.access.sessions import TOKEN_SECONDS, Grant, Login, Sessions
from lily.domain.errors import LilyError
from lily.domain.tenants import TENANT_NAME
from lily.repositories.postgres.identities import Session
from lily.serving.rest.auth_answers import BrowserLogin, CredentialDocument, GrantedTokens
from lily.serving.rest.bodies import Body, body_of, read_model


class LoginBody(Body):
    tenant_id: str = Field(pattern=f"^{TENANT_NAME}$")
    username: str = Field(min_length=1, max_length=256)
    password: str = Field(min_length=1, max_length=1024)
    scope: str | None = Field(None, description="Space-separated scopes; all the user may do without it.")
    cookie: bool = Field(False, description="Answer with a session cookie, for browsers, instead of tokens.")


class RefreshBody(Body):
    refresh_token: str = Field(max_length=1024)


@dataclass(frozen=True)
class AuthRoutes:
    sessions: Sessions
    cookies: Cookies

    def router(self) -> APIRouter:
        granted = GrantedTokens | BrowserLogin
        return add_routes(
            APIRouter(prefix="/lily/v1/auth", tags=["auth"]),
            Route("/login", "POST", self.login, "login", granted, body_of(LoginBody)),
            Route("/refresh", "POST", self.refresh, "refreshToken", GrantedTokens, body_of(RefreshBody)),
            Route("/validate", "GET", self.validate, "validateToken", CredentialDocument),
            Route("/logout", "POST", self.logout, "logout", status=204),
        )

    async def login(self, request: Request) -> Response:
        """Log in with a password; ten failed attempts per user in five minutes are answered with 429."""
        body = await read_model(request, LoginBody)
        request.state.claimed = f"{body.tenant_id}/{body.username}"  # the audit keeps who tried
        scopes = None if body.scope is None else check_scopes(body.scope.split())
        address = origin_of(request).address
        login = Login(body.tenant_id, body.username, body.password, scopes, address)
        session = await self._checked(request, login)
        if not body.cookie:
            return _granted(await self.sessions.open(session))
        session_id, value = await self.sessions.open_for_browser(session)
        response = JSONResponse({"csrf_token": self.cookies.csrf_token(session_id)})
        self.cookies.set(response, self.cookies.session_name, value)
        return response

    async def _checked(self, request: Request, login: Login) -> Session:
        """A failure is noted for the whole installation: whether there is such a tenant is not known."""
        try:
            session = await self.sessions.check_password(login)
        except LilyError as error:
            unknown = Principal(INSTALLATION, login.user_name, frozenset())
            what = f"{login.tenant_id}/{login.user_name}"
            _notebook(request, unknown).write("login", ("user", what), False, error.code)
            raise
        known = Principal(session.tenant_id, session.subject, frozenset())
        _notebook(request, known).write("login", ("user", session.subject), True, "password")
        return session

    async def refresh(self, request: Request) -> Response:
        """New tokens for a refresh token, which may be used once; a second use ends the session."""
        body = await read_model(request, RefreshBody)
        grant = await self.sessions.refresh(body.refresh_token)
        known = Principal(grant.session.tenant_id, grant.session.subject, frozenset())
        what = ("session", grant.session.session_id)
        _notebook(request, known).write("refresh", what, True, "refresh token")
        return _granted(grant)

    async def logout(self, request: Request, principal: Authenticated) -> Response:
        """End the session or token this is called with; once answered, it is refused everywhere."""
        await self.sessions.log_out(request.state.credential)
        credential: Credential = request.state.credential
        _notebook(request, principal).write("logout", (credential.kind, principal.credential_id), True, "own")
        response = Response(status_code=204)
        self.cookies.clear(response, self.cookies.session_name)
        return response

    async def validate(self, request: Request, _principal: Authenticated) -> Response:
        """Whom the credential speaks for, and what it is good for."""
        return JSONResponse(self._described(request, request.state.credential))

    def _described(self, request: Request, credential: Credential) -> dict[str, Any]:
        principal = credential.principal
        described = {
            "active": True,
            "tenant_id": principal.tenant_id,
            "subject": principal.subject,
            "roles": sorted(principal.roles),
            "groups": sorted(principal.groups),
            "actions": None if principal.scopes is None else sorted(principal.scopes),
            "credential": {"kind": credential.kind, "id": principal.credential_id},
            "expires_at": datetime.fromtimestamp(credential.expires, UTC).isoformat(),
        }
        if credential.kind == SESSION and self.cookies.session_name in request.cookies:
            described["csrf_token"] = self.cookies.csrf_token(principal.credential_id)
        return described


def _notebook(request: Request, principal: Principal) -> Notebook:
    notebook = Notebook(request.app.state.trail, principal, origin_of(request))
    request.state.notebook = notebook
    return notebook


def _granted(grant: Grant) -> Response:
    scopes = grant.session.scopes
    content = {
        "access_token": grant.access_token,
        "token_type": "Bearer",
        "expires_in": TOKEN_SECONDS,
        "refresh_token": grant.refresh_token,
        **({} if scopes is None else {"scope": " ".join(scopes)}),
    }
    return JSONResponse(content)
